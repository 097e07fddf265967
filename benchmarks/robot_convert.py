"""The datasets of the robot job as Lance tables. Runs in the peers' environment.

PEERS/bin/python benchmarks/robot_convert.py [bench-data/robot]
"""

import argparse
from pathlib import Path

from lerobot_lancedb.convert import convert
from robot_data import DATASETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/robot"))
    folder = parser.parse_args().folder
    for name in DATASETS:
        out = folder / f"{name}-lance"
        if not out.exists():
            convert(out, root=folder / name)


if __name__ == "__main__":
    main()
