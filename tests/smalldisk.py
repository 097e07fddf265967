"""A small file system of a test's own, to be really full. Only root may mount one: elsewhere the test is skipped."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of ``size`` bytes, mounted at a folder."""
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "penstock-test", folder], capture_output=True, text=True
    )
    if mount.returncode:
        pytest.skip(f"NOT TESTED on a really full disk: no file system can be mounted here ({mount.stderr.strip()})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk to the last byte by one file, which is returned."""
    path = folder / "filling"
    with open(path, "wb", buffering=0) as file:
        for piece in (1 << 16, 1):
            try:
                while os.write(file.fileno(), bytes(piece)):
                    pass
            except OSError:
                pass
    return path
