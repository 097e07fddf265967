"""Atomic writes: a file appears whole or not at all. For a folder see ``manifest.publish``."""

import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from penstock.runtime.owned import share_like_folder


def write_atomically(
    path: Path, pieces: Iterable[bytes | memoryview], *, sync: bool = False, shared: bool = False
) -> None:
    """Write ``pieces`` to a hidden file beside ``path``, then rename it to ``path``, replacing an existing file.

    The hidden file always has the same name, so that the next process overwrites what a killed one left. Processes that
    may write the same path at the same time need a lock, or ``shared``.

    Args:
        path: File to write.
        pieces: Content of the file.
        sync: Whether to fsync before the rename. Without it the file may be empty after a power cut.
        shared: Whether processes, also of other machines, may write the path at the same time. The hidden file then has
            a name of its own, which a killed process leaves behind.
    """
    own = f".{uuid4().hex}" if shared else ""
    partial = path.with_name(f".{path.name}{own}.partial")
    try:
        with open(partial, "wb") as file:
            share_like_folder(partial)
            file.writelines(pieces)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)  # on a full disk, it would take the last bytes
        raise
