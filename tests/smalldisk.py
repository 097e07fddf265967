"""A small file system that a test can fill. The test is skipped, with a reason, where none can be mounted."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a file system of ``size`` bytes at a folder."""
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
    """Fill the disk to the last byte with one file. Returns its path."""
    path = folder / "filling"
    with open(path, "wb", buffering=0) as file:
        for piece in (1 << 16, 1):
            try:
                while os.write(file.fileno(), bytes(piece)):
                    pass
            except OSError:
                pass
    return path


def may_mount() -> bool:
    """Whether a process in a namespace of its own may mount a file system: ``unshare -Urm``."""
    command = ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0
