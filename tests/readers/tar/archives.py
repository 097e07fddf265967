"""Tar archives for tests, by two independent writers: Python's tarfile and GNU tar."""

import os
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from penstock.readers.tar.archive import add_file
from penstock.readers.tar.layout import Member
from penstock.readers.tar.samples import scan
from penstock.store.blob import Blob
from penstock.store.local import LocalStore

TARFILE_FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
GNU_TAR_FORMATS = ("oldgnu", "gnu", "ustar", "posix")

Files = Iterable[tuple[str, bytes]]
Samples = list[tuple[str, dict[str, bytes]]]


def write_tar(path: Path, files: Files, form: int = tarfile.PAX_FORMAT) -> Path:
    """Write files with tarfile, in order and under any name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=form) as archive:
        for name, data in files:
            add_file(archive, name, data)
    return path


def gnu_tar(path: Path, folder: Path, form: str, *options: str) -> Path:
    """Write all files of a folder with GNU tar."""
    command = ["tar", f"--format={form}", "--sort=name", *options, "-C", os.fspath(folder), "-cf", os.fspath(path)]
    subprocess.run([*command, *sorted(os.listdir(folder))], check=True)
    return path


def read(blob: Blob, member: Member) -> bytes:
    buffer = bytearray(member.size)
    blob.readinto(memoryview(buffer), member.offset)
    return bytes(buffer)


def samples_of(path: Path) -> Samples:
    blob = LocalStore(path.parent).open(path.name)
    try:
        return [
            (sample.key, {member.ext: read(blob, member) for member in sample.members})
            for sample in scan(blob, path.name)
        ]
    finally:
        blob.close()
