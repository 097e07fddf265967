"""A local file with other bytes whose inode, size and mtime are those of the file before it."""

import os
from pathlib import Path


def make_anew(path: Path, data: bytes) -> None:
    before = path.stat()
    assert len(data) == before.st_size and data != path.read_bytes()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert after.st_ctime_ns != before.st_ctime_ns
