"""A run in a process of its own, to be killed: python -m tests.curate.speech.run FOLDER FILELIST"""

import sys
from pathlib import Path

from penstock.curate.speech.build import Outputs, build_filelist
from penstock.runtime.engines.local import LocalEngine
from penstock.store.local import LocalStore

if __name__ == "__main__":
    data, out = map(Path, sys.argv[1:])
    paths = [path.relative_to(data).as_posix() for path in data.rglob("*.tar")]
    build_filelist(LocalStore(data), paths, Outputs(out), LocalEngine(2))
