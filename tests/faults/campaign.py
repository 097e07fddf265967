"""A seeded campaign of faults over a real S3 server and real processes: ``python -m tests.faults.campaign``.

In every round a training run (``trainer``) reads through a small node cache while something goes wrong. Judged from
outside: each stream equals its plan, or ends with one clear line; no process outlives its parent by more than
``END_SECONDS``; nothing is left behind.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import penstock
from penstock.readers.tar.index import index_shards
from penstock.store.cache import upkeep
from penstock.store.cache.account import CONTROL
from penstock.store.cache.cache import NodeCache
from penstock.store.remote.direct import DirectStore
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import open_remote
from tests.servers.faultproxy import ROOT, FaultProxy, Rule
from tests.servers.weed import S3Server, running_server
from tests.shards import content, write_shards

SIZES = {"hindi": [12, 9, 11, 10, 12], "odia": [8, 10, 9]}
BYTES_EACH = 30_000
PART = 16_384
BOUND = 2_000_000  # of 2.5 MB
DISK = 2_000_000  # with what a cache needs beside the entries: too little for its bound
STEPS = 16
BATCH = 6
END_SECONDS = 5.0
ROUND_SECONDS = 60.0
WORKERS = {"workers": 2}
ENGINES: tuple[dict[str, int], ...] = ({"threads": 0}, {"threads": 2}, WORKERS)


class Defect(AssertionError):
    """What a round must never show."""


@dataclass
class Place:
    """What one round at a time runs in: its part of the bucket, a proxy, a cache and the plan."""

    folder: Path
    server: S3Server
    prefix: str
    proxy: FaultProxy
    is_small_disk: bool
    shards: dict[str, bytes] = field(default_factory=dict)
    next_step: int = 0

    def __post_init__(self) -> None:
        write_shards(self.folder, SIZES, bytes_each=BYTES_EACH)
        self.shards = {path.name: path.read_bytes() for path in self.folder.glob("*.tar")}
        for name in self.shards:
            self.restore(name)
        direct = DirectStore(open_remote(self.url, StoreOptions(self.server.url, "us-east-1")))
        index_shards(direct, list(self.shards), self.folder / "index", filelist=self.folder / "train.tsv")
        NodeCache(self.cache, BOUND, part_bytes=PART).close()
        self.feed = penstock.open(self.config(), rank=0, world=1)

    @property
    def url(self) -> str:
        return f"s3://{self.server.bucket}/{self.prefix}"

    @property
    def cache(self) -> Path:
        return self.folder / "disk" / "cache"

    def restore(self, name: str) -> None:
        self.server.put(f"{self.prefix}/{name}", self.shards[name])

    def config(self) -> dict[str, Any]:
        return {
            "manifest": str(self.folder / "index"),
            "store": self.url,
            "remote": {"endpoint": self.proxy.url, "region": "us-east-1", "timeout_seconds": 1.5},
            "cache": {"dir": str(self.cache), "size": BOUND},
            "global_batch_size": BATCH,
            "pool": 2,
            "seed": 11,
            "mixture": {"weights": "equal"},
            "prefetch": {"steps": 4, "concurrency": 4},
            "usage": {"log": str(self.folder / "usage.jsonl"), "every": 4},
        }

    def expected(self, step: int) -> list[str]:
        samples = [content(line.group, line.item, BYTES_EACH) for line in self.feed.lines(step)]
        return [hashlib.sha256(sample).hexdigest()[:16] for sample in samples]


@dataclass
class Run:
    """One trainer, in a session of its own, so that all its processes can be found."""

    place: Place
    engine: dict[str, int]
    fork: bool = False
    lines: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = self.place.next_step
        settings = {
            "config": self.place.config(),
            "start": self.start,
            "steps": STEPS,
            "engine": self.engine,
            "fork": self.fork,
        }
        path = self.place.folder / "trainer.json"
        path.write_text(json.dumps(settings))
        self._errors = open(self.place.folder / "stderr", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.trainer", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, **self.place.server.environment(), "NO_PROXY": "127.0.0.1"},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait_until(lambda: len(self.lines) >= 2 or self.process.poll() is not None, "two batches")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(json.loads(text))

    def _wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + ROUND_SECONDS
        while not is_so():
            if time.monotonic() > until:
                raise Defect(f"no {what} within {ROUND_SECONDS:.0f} s; stderr: {self.errors()}")
            time.sleep(0.01)

    def go(self) -> None:
        """Let the trainer go on after its second batch."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def others(self) -> list[int]:
        """All processes of the session but the trainer."""
        return [pid for pid in session(self.process.pid) if pid != self.process.pid]

    def errors(self) -> str:
        self._errors.flush()
        return Path(self._errors.name).read_text()

    def finish(self) -> int:
        """Wait for the trainer and for all that it started; return its code."""
        self._wait_until(lambda: self.process.poll() is not None, "end")
        ended = time.monotonic()
        while left := session(self.process.pid):
            if time.monotonic() > ended + END_SECONDS:
                raise Defect(f"{len(left)} processes outlive the trainer by {END_SECONDS:.0f} s")
            time.sleep(0.02)
        self._reader.join()
        return self.process.returncode

    def kill_all(self) -> None:
        for pid in session(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._errors.close()


def session(number: int) -> list[int]:
    """The processes of a session that are not dead yet."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(words[3]) == number and words[0] != "Z":
            found.append(int(name))
    return found


Fault = Callable[[Run, random.Random], None]


def calm(run: Run, rng: random.Random) -> None:
    run.go()


def kill_a_worker(run: Run, rng: random.Random) -> None:
    run.go()
    time.sleep(rng.random() * 0.1)
    if others := run.others():
        os.kill(rng.choice(others), signal.SIGKILL)


def kill_the_trainer(run: Run, rng: random.Random) -> None:
    run.go()
    time.sleep(rng.random() * 0.2)
    run.process.kill()


def interrupt(run: Run, rng: random.Random) -> None:
    run.place.proxy.rules(Rule("delay", seconds=30, probability=0.5), seed=rng.randrange(1 << 30))
    run.go()
    time.sleep(rng.random() * 0.2)
    run.process.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM)))


def stop(run: Run, rng: random.Random) -> None:
    run.go()
    pid = rng.choice([run.process.pid, *run.others()])
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.2 + rng.random() * 0.5)
    os.kill(pid, signal.SIGCONT)


def on_the_wire(*rules: Rule) -> Fault:
    def fault(run: Run, rng: random.Random) -> None:
        run.place.proxy.rules(*rules, seed=rng.randrange(1 << 30))
        run.go()

    return fault


def replace(run: Run, rng: random.Random) -> None:
    change(run, rng, lambda data: data.replace(b".....", b"-----", 400))


def truncate(run: Run, rng: random.Random) -> None:
    change(run, rng, lambda data: data[: len(data) // 2])


def change(run: Run, rng: random.Random, new: Callable[[bytes], bytes]) -> None:
    """Put another version of some shards into the store."""
    for name in rng.sample(sorted(run.place.shards), 3):
        run.place.server.put(f"{run.place.prefix}/{name}", new(run.place.shards[name]))
    run.go()


def full_disk(run: Run, rng: random.Random) -> None:
    """Fill what the cache lies on to the last byte."""
    with open(run.place.folder / "disk" / "filling", "wb", buffering=0) as file:
        try:
            while run.place.is_small_disk and os.write(file.fileno(), bytes(4_096)):
                pass
        except OSError:
            pass
    run.go()


def fork(run: Run, rng: random.Random) -> None:
    run.go()


FAULTS: dict[str, Fault] = {
    "calm": calm,
    "kill a worker": kill_a_worker,
    "kill the trainer": kill_the_trainer,
    "interrupt": interrupt,
    "stop": stop,
    "cut": on_the_wire(Rule("cut", probability=0.3, after=5_000), Rule("reset", probability=0.1)),
    "slow": on_the_wire(Rule("slow", probability=0.5, bytes_per_second=300_000)),
    "silent": on_the_wire(Rule("delay", probability=0.1, seconds=30)),
    "refuse": on_the_wire(Rule("status", probability=0.3, status=503)),
    "short bodies": on_the_wire(Rule("truncate", probability=0.2, after=3_000)),
    "corrupt": on_the_wire(Rule("corrupt", probability=0.2, after=7_000)),
    "replace": replace,
    "truncate": truncate,
    "full disk": full_disk,
    "forked child": fork,
}
ENDINGS = {"kill the trainer": (-signal.SIGKILL,), "interrupt": (-signal.SIGINT, -signal.SIGTERM, 130, 143)}
# Where nothing but time is lost, the whole stream must come.
HARMLESS = ("calm", "stop", "cut", "slow", "silent", "refuse", "short bodies", "corrupt", "forked child")


def play(place: Place, name: str, rng: random.Random) -> str:
    """Play one round. Returns how it ended: ``whole``, ``error`` or ``ended``.

    Raises:
        Defect: something that must never happen.
    """
    place.proxy.clear()
    if rng.random() < 0.5:
        upkeep.clear(NodeCache.as_it_is(place.cache))
    engine = WORKERS if name == "kill a worker" else rng.choice(ENGINES)
    run = Run(place, engine, fork=name == "forked child")
    try:
        FAULTS[name](run, rng)
        code = run.finish()
        ending = judge(run, name, code)
    except Defect as defect:
        raise Defect(f"{name}, {run.engine}, from step {run.start} on: {defect}") from None
    finally:
        run.kill_all()
        place.proxy.clear()
        (place.folder / "disk" / "filling").unlink(missing_ok=True)
        if name in ("replace", "truncate"):
            for shard in place.shards:
                place.restore(shard)
    check_what_is_left(place)
    place.next_step = run.start + len(run.lines)
    return ending


def judge(run: Run, name: str, code: int) -> str:
    for place, line in enumerate(run.lines):
        step = run.start + place
        if line["step"] != step:
            raise Defect(f"step {line['step']} came where step {step} was due")
        expected = run.place.expected(step)
        wrong = [slot for slot, digest in enumerate(line["digests"]) if digest != expected[slot]]
        if set(wrong) - set(line["bad"]):
            raise Defect(f"step {step}: slots {wrong} hold wrong bytes")
    errors = run.errors()
    if code == 0 and len(run.lines) == STEPS:
        return "whole"
    if code in ENDINGS.get(name, ()):
        return "ended"
    if code == 3 and name not in HARMLESS and errors.strip().splitlines()[-1].startswith("error: "):
        return "error"
    raise Defect(f"{len(run.lines)} batches, code {code}; stderr: {errors}")


def check_what_is_left(place: Place) -> None:
    cache = NodeCache.as_it_is(place.cache)
    found = upkeep.stat(cache)
    if found.pinned or found.reserved > BOUND:
        raise Defect(f"left in the cache: {found}")
    left = [path.name for path in (place.cache / CONTROL).rglob("*") if path.name.endswith((".partial", ".making"))]
    if left:
        raise Defect(f"left in the cache's folder: {left}")


@contextmanager
def place_of(folder: Path, server: S3Server, number: int) -> Iterator[Place]:
    """A place whose cache lies on a small disk of its own, where one can be mounted."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "penstock-faults", str(disk)]
    mounted = subprocess.run(command, capture_output=True).returncode == 0
    try:
        with FaultProxy(server.url) as proxy:
            yield Place(folder, server, f"faults-{os.getpid()}-{number}", proxy, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)


def campaign(rounds: int, seed: int, places: int, folder: Path, names: list[str]) -> Counter[tuple[str, str]]:
    """Play rounds at several places at once. Returns how many rounds of each fault ended how."""
    found: Counter[tuple[str, str]] = Counter()
    numbers = iter(range(rounds))
    taking = threading.Lock()
    failed: list[BaseException] = []

    def work(place: Place) -> None:
        while not failed:
            with taking:
                number = next(numbers, None)
            if number is None:
                return
            name = names[number % len(names)]
            try:
                ending = play(place, name, random.Random(f"{seed}-{number}"))
            except BaseException as error:
                failed.append(error)
                raise
            with taking:
                found[name, ending] += 1

    with ExitStack() as stack:
        server = stack.enter_context(running_server(folder / "s3"))
        os.environ.update(server.environment())
        os.environ["NO_PROXY"] = "127.0.0.1"
        ready = [stack.enter_context(place_of(folder / f"{number}", server, number)) for number in range(places)]
        threads = [threading.Thread(target=work, args=(place,)) for place in ready]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not all(place.is_small_disk for place in ready):
            print("NOT TESTED on a really full disk: no file system can be mounted here")
    if failed:
        raise failed[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--places", type=int, default=2, help="rounds at once")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penstock-faults-"))
    begin = time.monotonic()
    try:
        found = campaign(arguments.rounds, arguments.seed, arguments.places, folder, list(FAULTS))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for (name, ending), count in sorted(found.items()):
        print(f"{name:>16}  {ending:<6} {count}")
    print(f"{arguments.rounds} rounds, seed {arguments.seed}: no defect, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
