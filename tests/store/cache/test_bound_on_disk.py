"""The bound holds on the disk itself, and a full disk is survived. On real, small disks in a namespace of our own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.smalldisk import may_mount

ROOT = Path(__file__).parents[3]

PRELUDE = """
import os, subprocess, sys, threading, time
from pathlib import Path
from penstock.store.cache import maintenance
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from tests.store.folder_remote import FolderRemote

bucket = Path(sys.argv[1])
disk = Path(sys.argv[2])
remote = FolderRemote(bucket)

def mount(size):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)], check=True)

def used():
    status = os.statvfs(disk)
    return (status.f_blocks - status.f_bfree) * status.f_frsize

def read(store, key):
    blob = store.open(key)
    buffer = bytearray(blob.size)
    blob.readinto(memoryview(buffer), 0)
    blob.close()
    assert bytes(buffer) == (bucket / key).read_bytes()

def store_of(size, **options):
    return CachedStore(remote, NodeCache(disk / "cache", size, part_bytes=65_536, **options))
"""


pytestmark = pytest.mark.skipif(not may_mount(), reason="NOT TESTED on a small disk: none can be mounted here")


def run(script: str, tmp_path: Path, count: int, size: int) -> subprocess.CompletedProcess[str]:
    bucket = tmp_path / "bucket"
    disk = tmp_path / "disk"
    bucket.mkdir()
    disk.mkdir()
    for number in range(count):
        (bucket / f"{number}").write_bytes(number.to_bytes(8, "little") * (size // 8))
    command = ["unshare", "-Urm", sys.executable, "-c", PRELUDE + script, str(bucket), str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done


def test_what_is_evicted_leaves_the_disk_at_once(tmp_path: Path) -> None:
    script = """
mount("60m")
store = store_of(10_000_000)
most = 0
descriptors = 0
for number in range(60):
    read(store, str(number))
    most = max(most, used())
    descriptors = max(descriptors, len(os.listdir("/proc/self/fd")))
print(most, descriptors)
"""
    done = run(script, tmp_path, 60, 1_000_000)
    most, descriptors = map(int, done.stdout.split())
    assert 8_000_000 < most < 10_000_000 + 500_000, "objects, their marks and folders"
    assert descriptors < 30


def test_a_run_on_a_disk_smaller_than_the_bound_evicts_and_goes_on(tmp_path: Path) -> None:
    script = """
mount("6m")
store = store_of(100_000_000)
for number in [*range(30), *range(30)]:
    read(store, str(number))
print(store.cache.counters.mine().evictions)
"""
    done = run(script, tmp_path, 30, 1_000_000)
    assert int(done.stdout) > 40
    assert "may hold 100,000,000 bytes, but its disk has room for" in done.stderr


def test_threads_and_processes_on_a_full_disk_read_right_bytes(tmp_path: Path) -> None:
    script = """
mount("8m")

def worker(seed):
    store = store_of(100_000_000)
    for number in range(20):
        read(store, str((number * 7 + seed) % 20))

children = []
for seed in range(3):
    child = os.fork()
    if child == 0:
        try:
            worker(seed)
            os._exit(0)
        except BaseException as error:
            print(error, flush=True)
            os._exit(1)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
    done = run(script, tmp_path, 20, 1_000_000)
    assert done.stdout.strip() == "[0, 0, 0]"


def test_stat_verify_and_clear_work_on_a_full_disk(tmp_path: Path) -> None:
    script = """
mount("6m")
store = store_of(4_000_000)
for number in range(3):
    read(store, str(number))
store.close()
with open(disk / "filler", "wb", buffering=0) as filler:
    try:
        while filler.write(bytes(4_096)):
            pass
    except OSError as error:
        print(error.strerror)
for command in ("stat", "verify", "clear"):
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "cache", command, str(disk / "cache")], capture_output=True, text=True
    )
    print(command, done.returncode, " ".join(done.stdout.split()), done.stderr)
print(used() < 5_000_000)
"""
    done = run(script, tmp_path, 3, 1_000_000)
    full, stat, verify, clear, freed = done.stdout.splitlines()
    assert full == "No space left on device"
    assert stat.startswith("stat 0") and "3,000,000" in stat
    assert verify.startswith("verify 0 3 good")
    assert clear.startswith("clear 0 3,000,000 bytes removed")
    assert freed == "True"


def test_a_working_set_that_the_disk_cannot_hold_is_refused_at_the_start(tmp_path: Path) -> None:
    script = """
mount("4m")
store = store_of(100_000_000)
read(store, "0")
try:
    store.cache.require(50_000_000)
except RuntimeError as error:
    print(error)
"""
    done = run(script, tmp_path, 1, 1_000_000)
    assert "has room on its disk for" in done.stdout
    assert "needs 50,000,000: free space, or use a larger disk" in done.stdout


def test_a_refused_size_leaves_the_cache_as_it_was(tmp_path: Path) -> None:
    script = """
mount("30m")
store = store_of(20_000_000)
for number in range(10):
    read(store, str(number))
store.close()
try:
    store_of(5_000_000).cache.require(8_000_000)
except RuntimeError as error:
    print(error)
print(maintenance.stat(store.cache).objects)
accepted = store_of(5_000_000)
accepted.cache.require(4_000_000)
print(maintenance.stat(accepted.cache).objects)
"""
    done = run(script, tmp_path, 10, 1_000_000)
    refusal, before, after = done.stdout.splitlines()
    assert "set its size to at least 8,000,000" in refusal
    assert (before, after) == ("10", "4")
