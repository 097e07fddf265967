"""A cache on a disk that is too small, and on one that turns read-only: real ones, in a namespace of our own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.smalldisk import may_mount

SCRIPT = """
import subprocess, sys
from pathlib import Path
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.disk import CacheDiskError
from tests.store.folder_remote import FolderRemote, open_in

bucket, disk = Path(sys.argv[1]), Path(sys.argv[2])

def mount(*options):
    subprocess.run(["mount", *options, str(disk)], check=True)

def read(cache, key):
    remote = FolderRemote(bucket)
    blob = open_in(cache, remote, key, remote.head(key))
    buffer = bytearray(blob.size)
    blob.readinto(memoryview(buffer), 0)
    return bytes(buffer) == (bucket / key).read_bytes()

def attempt(cache, key):
    try:
        print("read", read(cache, key))
    except CacheDiskError as error:
        print(error.strerror)

mount("-t", "tmpfs", "-o", "size=3m", "none")
cache = NodeCache(disk / "cache", 100 * 10**6, part_bytes=65_536)
attempt(cache, "small")
attempt(cache, "large")
attempt(cache, "small")
mount("-o", "remount,size=40m")
attempt(cache, "large")
cache.close()  # a disk turns read-only only when nobody has a file open for writing
mount("-o", "remount,ro")
attempt(cache, "other")
"""


@pytest.mark.skipif(not may_mount(), reason="NOT TESTED on a small disk: none can be mounted here")
def test_a_full_and_a_read_only_disk_are_told_and_nothing_wrong_is_read(tmp_path: Path) -> None:
    bucket, disk = tmp_path / "bucket", tmp_path / "disk"
    bucket.mkdir()
    disk.mkdir()
    for seed, (name, size) in enumerate({"small": 1_000_000, "large": 8_000_000, "other": 1_000_000}.items()):
        (bucket / name).write_bytes((bytes(range(256)) + bytes([seed])) * (size // 257))
    command = ["unshare", "-Urm", sys.executable, "-c", SCRIPT, str(bucket), str(disk)]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=root)
    assert done.returncode == 0, done.stderr
    small, full, again, enough, read_only = done.stdout.splitlines()
    assert small == again == enough == "read True", "also while the disk is full, and once there is room"
    assert "the disk is full: free space on it, or give the cache a smaller size" in full and str(disk) in full
    assert "the file system is read-only" in read_only
