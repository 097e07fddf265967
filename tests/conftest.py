"""The servers that tests of several rooms share.

- ``s3_server``: where the real S3 server is (session; started when first asked for, one for all xdist workers).
- ``s3``: a prefix of its own in the server's bucket, with credentials in the environment, so that child processes
  have them too. ``s3.url``, ``s3.options`` (straight to the server), ``s3.put(key, data)``, ``s3.remote()``.
- ``proxy``: the fault proxy in front of the server, without rules and with an empty log. ``proxy.rules(Rule(…), …)``,
  ``proxy.log()``; reach it with ``s3.remote(via=proxy)`` or ``s3.through(proxy)``, the options alone. Its log has the
  keys with the bucket cut off; ``s3.prefix`` is the start of those of the test.

Outside of pytest (a benchmark, a campaign): ``with running_server(folder) as server, FaultProxy(server.url) as proxy``.
"""

import dataclasses
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import Remote
from tests.servers.faultproxy import FaultProxy
from tests.servers.weed import S3Server, running_server

# Several test processes share few cores, and threads of torch that wait for each other make 14 s of a test of 1 s.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell ignores Ctrl-C in what it starts in the background, and so would all that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A machine may be busy: how long an example takes proves nothing.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


@dataclass(frozen=True)
class S3Prefix:
    """One test's own part of the bucket. Options are those of a test: they give up after seconds, not minutes."""

    server: S3Server
    prefix: str

    @property
    def url(self) -> str:
        return f"s3://{self.server.bucket}/{self.prefix}"

    @property
    def options(self) -> StoreOptions:
        return StoreOptions(endpoint=self.server.url, region="us-east-1", retry_seconds=30)

    def through(self, proxy: FaultProxy) -> StoreOptions:
        return dataclasses.replace(self.options, endpoint=proxy.url)

    def remote(self, via: FaultProxy | None = None) -> Remote:
        return open_remote(self.url, self.through(via) if via else self.options)

    def put(self, key: str, data: bytes) -> str:
        """Store an object; its ETag, as ``Remote.head`` gives it."""
        return self.server.put(f"{self.prefix}/{key}", data)


@pytest.fixture(scope="session", autouse=True)
def loopback_is_reached_directly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield


@pytest.fixture(autouse=True)
def no_test_has_real_time_priority() -> None:
    """SVT-AV1 gives it to the thread that encodes, for root: busy children of a later test would stop all others."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.fixture(scope="session", autouse=True)
def caches_are_the_session_s_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[S3Server]:
    session = tmp_path_factory.getbasetemp()
    # Under xdist every worker has its own folder in the session's.
    with running_server((session if worker_id == "master" else session.parent) / "s3") as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Prefix:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return S3Prefix(s3_server, f"{tmp_path.parent.name}-{tmp_path.name}")


@pytest.fixture(scope="session")
def proxy_process(s3_server: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.url) as proxy:
        yield proxy


@pytest.fixture
def proxy(proxy_process: FaultProxy) -> Iterator[FaultProxy]:
    proxy_process.clear()
    yield proxy_process
    proxy_process.clear()
