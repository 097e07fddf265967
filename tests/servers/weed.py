"""A real S3 server (SeaweedFS) for the tests, one for all workers of a test session. Knows nothing of what is tested.

The server's keeper is a process of its own (this file, run as a script). Every user of the server holds a shared flock
on one file; the keeper waits for the exclusive one, which the kernel grants when the last user is gone, be it by
``kill -9``, and then ends the server and removes its data.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

BUCKET = "penstock-tests"
ACCESS_KEY, SECRET_KEY = "testaccess", "testsecret1"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where the server is, and its one bucket: each further one would reserve volumes of its own."""

    url: str
    bucket: str = BUCKET
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY

    def environment(self) -> dict[str, str]:
        """The variables that give a process the right to read and write here."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def put(self, key: str, data: bytes) -> str:
        """Store an object from the side, not by the code under test; its ETag, without quotes."""
        import obstore

        keys = {"access_key_id": self.access_key, "secret_access_key": self.secret_key}
        store = obstore.store.S3Store(
            self.bucket, endpoint=self.url, region="us-east-1", client_options={"allow_http": True}, **keys
        )
        return (obstore.put(store, key, data, use_multipart=len(data) > 32 << 20)["e_tag"] or "").strip('"')


@contextlib.contextmanager
def running_server(folder: Path) -> Iterator[S3Server]:
    """The server of ``folder``, started if nobody has yet; it lives while anyone is in such a block."""
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "server.json"
    with (folder / "users").open("w") as users, (folder / "starting").open("w") as starting:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(starting, fcntl.LOCK_EX)
        if not state.exists():
            command = [sys.executable, __file__, str(folder)]
            with (folder / "keeper.log").open("w") as log:
                keeper = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            wait_until(lambda: state.exists() or keeper.poll() is not None, f"no S3 server yet; see {folder}")
            if keeper.poll() is not None:
                raise RuntimeError((folder / "keeper.log").read_text())
        fcntl.flock(starting, fcntl.LOCK_UN)
        yield S3Server(**json.loads(state.read_text()))


def wait_until(is_so: Callable[[], bool], complaint: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(complaint)
        time.sleep(0.05)


# ---- what runs in the keeper's process ------------------------------------------------------------------------------


def free_ports(count: int) -> list[int]:
    """Ports free now, as are those 10,000 above (gRPC); all below the range the kernel gives to clients."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(10_000, 22_000)
        with contextlib.suppress(OSError), socket.socket() as low, socket.socket() as high:
            low.bind(("127.0.0.1", port))
            high.bind(("127.0.0.1", port + 10_000))
            if port not in found:
                found.append(port)
    return found


@dataclass(frozen=True, slots=True)
class Ports:
    master: int
    volume: int
    filer: int
    s3: int


def start(folder: Path, ports: Ports) -> subprocess.Popen[bytes]:
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    data = folder / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    command = [
        str(Path(sysconfig.get_path("scripts")) / "weed"),
        *("server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}"),
        *(f"-master.port={ports.master}", "-master.volumeSizeLimitMB=256", "-master.telemetry=false"),
        *(f"-volume.port={ports.volume}", "-volume.max=0", "-filer", f"-filer.port={ports.filer}"),
        *("-s3", f"-s3.port={ports.s3}", "-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={folder / 's3.json'}"),
    ]
    log = (folder / "weed.log").open("wb")
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=data)


def answers(ports: Ports) -> bool:
    """Whether an object can be stored: without a volume the first PUT would be retried inside for many seconds."""
    base = "http://127.0.0.1:{}"
    try:
        bucket = urllib.request.Request(base.format(ports.filer) + f"/buckets/{BUCKET}/", method="POST")
        with contextlib.suppress(urllib.error.HTTPError):  # it is there already
            DIRECT.open(bucket, timeout=5).close()
        with DIRECT.open(base.format(ports.master) + f"/dir/assign?collection={BUCKET}", timeout=5) as volume:
            if "fid" not in json.load(volume):
                return False
        DIRECT.open(base.format(ports.s3), timeout=5).close()
    except urllib.error.HTTPError as refused:
        return refused.code == 403  # S3 is up and wants a signature
    except OSError:
        return False
    return True


def keep(folder: Path) -> None:
    for _ in range(3):  # a port may be taken between the look and the start
        ports = Ports(*free_ports(4))
        process = start(folder, ports)
        with contextlib.suppress(TimeoutError):
            wait_until(lambda p=process, at=ports: p.poll() is not None or answers(at), "", 20)
        if process.poll() is None and answers(ports):
            break
        end(process, ports)
    else:
        raise SystemExit(f"the S3 server did not come up; see {folder / 'weed.log'}")
    state = folder / "server.json"
    state.with_suffix(".new").write_text(json.dumps(asdict(S3Server(url=f"http://127.0.0.1:{ports.s3}"))))
    state.with_suffix(".new").rename(state)
    with (folder / "users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        state.unlink()
        end(process, ports)
        shutil.rmtree(folder / "data", ignore_errors=True)


def end(process: subprocess.Popen[bytes], ports: Ports) -> None:
    process.kill()
    process.wait()
    for port in asdict(ports).values():  # the server leaves its sockets behind
        for name in (f"*-{port}.sock", f"*-grpc-{port + 10_000}.sock"):
            for path in Path("/tmp").glob("seaweedfs-" + name):
                path.unlink(missing_ok=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep(Path(sys.argv[1]))
