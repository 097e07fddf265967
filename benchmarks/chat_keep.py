"""The indexes of the chat job, as ``penstock index`` makes them, with all cores: once plain, once with token ids.

python benchmarks/chat_keep.py bench-data/chat
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from chat_ours import KEPT, run

COMMAND = [sys.executable, "-m", "penstock", "index"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    found = {}
    for name, keys, options in (
        ("text", run(folder, "text"), []),
        ("image", run(folder, "image"), []),
        ("kept", run(folder, "text", cache=KEPT), ["--tokens"]),
    ):
        path = folder / f"{name}.yaml"
        path.write_text(json.dumps(keys))  # JSON is YAML
        began = time.perf_counter()
        subprocess.run([*COMMAND, str(path), *options], check=True, stdout=subprocess.DEVNULL)
        found[f"{name}_seconds"] = time.perf_counter() - began
    print(json.dumps(found))


if __name__ == "__main__":
    main()
