"""A file that appears whole or not at all. For a folder see ``manifest.publish``."""

import os
from collections.abc import Iterable
from pathlib import Path


def write_aside(path: Path, pieces: Iterable[bytes | memoryview], *, sync: bool = False) -> None:
    """Write ``pieces`` to a hidden file beside ``path``, then rename it to ``path``, over what may be there.

    The hidden file always has the same name, so that what a killed process left is overwritten by the next one. Those
    that may write one path at the same time need a lock. Without ``sync`` the file may be empty after a power cut.
    """
    partial = path.with_name(f".{path.name}.partial")
    with open(partial, "wb") as file:
        file.writelines(pieces)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(partial, path)
