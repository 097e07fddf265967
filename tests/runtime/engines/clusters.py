"""A real Ray cluster of this machine, for tests. Its workers import what this process imports."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest


@contextmanager
def running_cluster() -> Iterator[None]:
    """Connect this process to a cluster of its own, with two cores, for the block."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [os.getcwd(), *sys.path])))
        patch.delenv("RAY_ADDRESS", raising=False)
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 << 20,
            _node_ip_address="127.0.0.1",
        )
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def separate_cluster(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a cluster as `ray start` does, with a token, for the block.

    Args:
        folder: Folder of the token, the output and the files of the cluster.

    Yields:
        Its address, and the environment of processes that may use it.
    """
    (folder / "token").write_text("0123456789abcdef" * 4)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
    command = [Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--port=0", "--num-cpus=2"]
    command += ["--include-dashboard=false", "--object-store-memory=100000000", "--disable-usage-stats"]
    with tempfile.TemporaryDirectory(prefix="ray-") as short, open(folder / "output", "w") as output:
        head = subprocess.Popen([*command, f"--temp-dir={short}"], env=environment, stdout=output, stderr=output)
        try:
            while not (found := re.search(r"--address='(\S+)'", (folder / "output").read_text())):
                assert head.poll() is None, (folder / "output").read_text()
                time.sleep(0.1)
            yield found[1], environment
        finally:
            head.terminate()  # it ends what it has started
            head.wait()


@contextmanager
def killed_worker() -> Iterator[None]:
    """Kill a worker of this process's cluster as soon as it makes a task, and check that this was within the block."""
    done = threading.Event()
    killer = threading.Thread(target=_kill_a_worker, args=(done,))
    killer.start()
    try:
        yield
        assert done.is_set(), "no worker was killed"
    finally:
        done.set()
        killer.join()


def _kill_a_worker(done: threading.Event) -> None:
    """Kill a worker of this process's cluster that makes a task, as soon as there is one."""
    while not done.is_set():
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::call"):
                    process.kill()
                    done.set()
                    return
        time.sleep(0.005)
