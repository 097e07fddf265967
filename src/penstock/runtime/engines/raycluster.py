"""The Ray engine: tasks on a Ray cluster. Ray makes tasks of dead workers and nodes again, and moves results here.

Workers need the same Penstock and the same Python as the process that asks. Each task compares them, also on nodes that
join later.
"""

import logging
import os
import pickle
import platform
import socket
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from penstock.runtime.engines.engine import ATTEMPTS, Outcome, R, T, WorkerLost, portable

_CONNECT_SECONDS = 10.0
_CORES_SECONDS = 10.0  # between looks at the size of the cluster, which may grow
_TASKS_PER_CORE = 2  # one runs and one waits
_NO_TOKEN = (
    "it has token authentication; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to a copy of ~/.ray/auth_token of "
    "its head node, unless that is your own file"
)
_DONE = "done"
_FAILED = "failed"
_DIFFERS = "differs"


class ClusterError(OSError):
    """A Ray cluster cannot be reached, or cannot be used by this process."""


class RayEngine:
    """Tasks on a Ray cluster; see ``Engine``.

    Args:
        address: Address of the cluster, such as ``10.0.0.1:6379`` or ``ray://10.0.0.1:10001``. None for the one of
            ``RAY_ADDRESS`` or of this machine, or else one of its own.
        at_once: Maximum number of tasks in flight; None for two per core of the cluster.
    """

    def __init__(self, address: str | None = None, at_once: int | None = None) -> None:
        self._address = address
        self._at_once = at_once

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Outcome[T, R], None, None]:
        with _connected(self._address) as ray:
            shared = ray.put(pickle.dumps(work))
            name = uuid.uuid4().hex
            call = ray.remote(max_retries=ATTEMPTS - 1)(_portable_call(_versions()))
            limit = _Limit(ray, self._at_once)
            running: dict[Any, T] = {}
            try:
                for task in tasks:
                    running[call.remote(name, [shared], pickle.dumps(task))] = task
                    while len(running) >= limit.now():
                        yield from _ended(ray, running)
                while running:
                    yield from _ended(ray, running)
            finally:
                for reference in running:
                    with suppress(Exception):  # the cluster may be gone, too
                        ray.cancel(reference, force=True)


class _Limit:
    """The number of tasks in flight, which follows the size of the cluster."""

    def __init__(self, ray: Any, at_once: int | None) -> None:
        self._ray = ray
        self._fixed = at_once
        self._found = 0
        self._next = 0.0

    def now(self) -> int:
        if self._fixed is not None:
            return max(1, self._fixed)
        if time.monotonic() >= self._next:
            cores = int(self._ray.cluster_resources().get("CPU", 0))
            self._found = _TASKS_PER_CORE * max(1, cores)
            self._next = time.monotonic() + _CORES_SECONDS
        return self._found


def _ended(ray: Any, running: dict[Any, T]) -> Generator[Outcome[T, Any], None, None]:
    """Wait for one task at least, and yield the outcome of each that has ended."""
    ready, _ = ray.wait(list(running), num_returns=1)
    for reference in ready:
        task = running.pop(reference)
        try:
            kind, value = ray.get(reference)
        except ray.exceptions.RayTaskError as error:  # raised before the function was called
            raise ClusterError(f"a Ray worker cannot make tasks: {_one_line(error.cause or error)}") from None
        except ray.exceptions.RayError as error:
            lost = WorkerLost(f"{ATTEMPTS} Ray workers died of it ({type(error).__name__}); is there enough memory?")
            yield Outcome(task, error=lost)
            continue
        if kind == _DIFFERS:
            raise ClusterError(value)
        if kind == _DONE:
            yield Outcome(task, pickle.loads(value))
        else:
            yield Outcome(task, error=pickle.loads(value))


def _versions() -> dict[str, str]:
    return {"penstock": import_module("penstock").__version__, "Python": ".".join(platform.python_version_tuple()[:2])}


def _portable_call(wanted: dict[str, str]) -> Callable[[str, list[Any], bytes], tuple[str, Any]]:
    """Return what a worker calls. It is pickled by value, so that it also runs where Penstock is missing or differs."""

    def call(name: str, shared: list[Any], task: bytes) -> tuple[str, Any]:
        import platform
        from importlib import import_module

        found = {"Python": ".".join(platform.python_version_tuple()[:2])}
        try:
            found["penstock"] = import_module("penstock").__version__
        except ImportError:
            found["penstock"] = "none"
        for package, version in wanted.items():
            if found[package] != version:
                return "differs", (
                    f"the Ray worker on {platform.node()} has {package} {found[package]}, and this process {version}; "
                    "install the same version on all nodes"
                )
        answer: tuple[str, Any] = import_module("penstock.runtime.engines.raycluster").answer(name, shared, task)
        return answer

    return call


def answer(name: str, shared: list[Any], task: bytes) -> tuple[str, bytes]:
    """Make a task in a worker: what the function returned or raised, pickled.

    Args:
        name: Name of the function, by which a worker keeps it for its next task.
        shared: Reference to the pickled function, alone in a list.
        task: Pickled task.
    """
    try:
        return _DONE, pickle.dumps(_work(name, shared[0])(pickle.loads(task)))
    except Exception as error:
        return _FAILED, pickle.dumps(portable(error))


_latest: dict[str, Callable[[Any], Any]] = {}  # the function of the last task of this worker, by name


def _work(name: str, reference: Any) -> Callable[[Any], Any]:
    if name not in _latest:
        import ray

        # There is a worker per core: threads of the tokenizer would only get in each other's way.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        os.environ.setdefault("RAYON_NUM_THREADS", "1")
        _latest.clear()
        _latest[name] = pickle.loads(ray.get(reference))
    return _latest[name]


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Connect to a cluster for the block, unless this process is connected already.

    Raises:
        ClusterError: If it cannot be reached, or has another version of Ray or Python.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the new default, of which Ray warns
    try:
        import ray
    except ImportError:
        raise ClusterError("--engine ray needs Ray: pip install 'penstock[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS")
    if address:
        _check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        where = f"the Ray cluster {address}" if address else "a Ray cluster of this machine"
        wants_token = "authentication token" in f"{error} {error.__cause__}".lower()
        reason = _NO_TOKEN if wants_token else _one_line(error)
        raise ClusterError(f"{where} cannot be used: {reason}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Fail early: Ray itself tries for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdecimal()):  # such as "auto", which Ray looks up
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"the Ray cluster {address} cannot be reached: {error.strerror or error}; is it running, and is "
            "--address HOST:PORT that of its head node (`ray status`)?"
        ) from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
