"""A local file overwritten with other bytes, with the same inode, size and mtime as before."""

import os
from pathlib import Path


def overwrite_keeping_stat(path: Path, data: bytes) -> None:
    before = path.stat()
    assert len(data) == before.st_size and data != path.read_bytes()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert after.st_ctime_ns != before.st_ctime_ns
