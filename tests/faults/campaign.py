"""A seeded campaign of faults over a real S3 server and real processes: ``python -m tests.faults.campaign``.

In every round a training run (``trainer``) of one of the pipelines (``kinds``) reads through a small node cache while
something goes wrong. Judged from outside: each sample that is served is that of the undamaged data; each stream equals
its plan but for samples that it names as bad, or ends with one clear line; no process outlives its parent by more than
``END_SECONDS``; nothing is left behind.
"""

import argparse
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
from penstock.feed import Feed
from penstock.readers.tar.index import index_shards
from penstock.store.cache import maintenance
from penstock.store.cache.account import CONTROL
from penstock.store.cache.cache import NodeCache
from penstock.store.remote.direct import DirectStore
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from tests.cli.commands import run as run_command
from tests.faults import kinds
from tests.faults.kinds import Kind
from tests.servers.faultproxy import ROOT, FaultProxy, Rule
from tests.servers.weed import S3Server, running_server

PART = 16_384
BOUND = 2_000_000  # of 2.5 MB
DISK = 2_000_000  # with what a cache needs beside the entries: too little for its bound
STEPS = 16
BATCH = 6
END_SECONDS = 5.0
ROUND_SECONDS = 240.0  # trainers of chat import transformers, and other work may run beside them
WORKERS = {"workers": 2}
ENGINES: tuple[dict[str, int], ...] = ({"threads": 0}, {"threads": 2}, WORKERS)


class Defect(AssertionError):
    """What a round must never show."""


@dataclass
class Place:
    """What one round at a time runs in: its part of the bucket, a proxy, a cache and a plan for each kind of data."""

    folder: Path
    server: S3Server
    prefix: str
    proxy: FaultProxy
    is_small_disk: bool
    kinds: dict[str, Kind]
    feeds: dict[str, Feed] = field(default_factory=dict)
    next_step: Counter[str] = field(default_factory=Counter)
    compared: int = 0  # samples
    named_bad: int = 0

    def __post_init__(self) -> None:
        for kind in self.kinds.values():
            for name in kind.names:
                self.put(kind, name, kind.undamaged(name))
            NodeCache(self.cache(kind), BOUND, part_bytes=PART).close()
        raw = self.kinds["raw"]
        direct = DirectStore(open_remote(self.url(raw), StoreOptions(self.server.url, "us-east-1")))
        if not (raw.folder / "index").exists():
            index_shards(direct, raw.names, raw.folder / "index", filelist=raw.folder / "train.tsv")
        self._index_videos(self.kinds["robot"])
        # The order does not depend on where data lie. This process opens nothing in the caches of the runs.
        apart = {"cache": {"dir": str(self.folder / "plans"), "size": "100MB"}}
        for name, kind in self.kinds.items():
            self.feeds[name] = penstock.open({**self.config(kind, kind.folder), **apart}, rank=0, world=1)

    def _index_videos(self, kind: Kind) -> None:
        """Keep checksums of videos, as ``penstock index`` does: damage is then always found."""
        path = self.folder / "index.yaml"
        path.write_text(json.dumps(self.config(kind)))
        indexed = run_command("index", path)
        assert indexed.exit_code == 0, indexed.output

    def url(self, kind: Kind) -> str:
        return f"s3://{self.server.bucket}/{self.prefix}/{kind.name}"

    def cache(self, kind: Kind) -> Path:
        return self.folder / ("disk" if kind.name == "raw" else "caches") / kind.name

    def put(self, kind: Kind, name: str, data: bytes) -> None:
        self.server.put(f"{self.prefix}/{kind.name}/{name}", data)

    def restore(self, kind: Kind) -> None:
        for name in kind.names:
            self.put(kind, name, kind.undamaged(name))

    def config(self, kind: Kind, local: Path | None = None) -> dict[str, Any]:
        """Return the keys of a run from the bucket, or from a local folder."""
        remote = {"endpoint": self.proxy.url, "region": "us-east-1", "timeout_seconds": 1.5}
        return {
            **(kind.keys(self.url(kind), remote) if local is None else kind.keys(str(local), {})),
            "cache": {"dir": str(self.cache(kind)), "size": BOUND},
            "global_batch_size": BATCH,
            "pool": 2,
            "seed": 11,
            "prefetch": {"steps": 4, "concurrency": 4},
            "usage": {"log": str(self.folder / "usage.jsonl"), "every": 4},
        }

    def planned(self, kind: Kind, step: int) -> list[str]:
        return [f"{line.source}/{line.item}" for line in self.feeds[kind.name].lines(step)]


@dataclass
class Run:
    """One trainer, in a session of its own, so that all its processes can be found."""

    place: Place
    kind: Kind
    engine: dict[str, int]
    fork: bool = False
    local: Path | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = self.place.next_step[self.kind.name]
        settings = {
            "config": self.place.config(self.kind, self.local),
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
    change(run, rng, lambda data: changed(data, rng))


def truncate(run: Run, rng: random.Random) -> None:
    change(run, rng, lambda data: data[: len(data) // 2])


def change(run: Run, rng: random.Random, new: Callable[[bytes], bytes]) -> None:
    """Put another version of some files into the store."""
    for name in some(run.kind, rng):
        run.place.put(run.kind, name, new(run.kind.undamaged(name)))
    run.go()


def some(kind: Kind, rng: random.Random) -> list[str]:
    return rng.sample(kind.names, min(3, len(kind.names)))


def changed(data: bytes, rng: random.Random) -> bytes:
    """Return data of the same size that differ in many places."""
    new = bytearray(data)
    for at in rng.sample(range(len(data)), min(200, len(data) // 2)):
        new[at] ^= 1 + rng.randrange(7)
    return bytes(new)


def replace_files(run: Run, rng: random.Random) -> None:
    """Put other files in place of local ones, with the same size and time."""
    assert run.local is not None
    for name in some(run.kind, rng):
        path = run.local / name
        times = path.stat()
        other = path.with_name("other")
        other.write_bytes(changed(path.read_bytes(), rng))
        os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
        other.rename(path)
    run.go()


def damage_frames(place: Place, kind: Kind, rng: random.Random) -> None:
    """Damage some frames of a video before the run: behind its header, in a few places."""
    for name in (name for name in kind.names if name.endswith(".mp4")):
        data = bytearray(kind.undamaged(name))
        begin = data.index(b"mdat") + 40
        for _ in range(3):
            at = rng.randrange(begin, begin + len(data) // 3)
            data[at : at + 4] = rng.randbytes(4)
        place.put(kind, name, bytes(data))


def damage_records(place: Place, kind: Kind, rng: random.Random) -> None:
    """Make some lines something else than JSON before the run."""
    for name in kind.names:
        lines = kind.undamaged(name).splitlines(keepends=True)
        for number in rng.sample(range(len(lines)), 20):
            lines[number] = b"#" + lines[number][1:]
        place.put(kind, name, b"".join(lines))


def full_disk(run: Run, rng: random.Random) -> None:
    """Fill what the cache lies on to the last byte."""
    with open(run.place.folder / "disk" / "filling", "wb", buffering=0) as file:
        try:
            while run.place.is_small_disk and os.write(file.fileno(), bytes(4_096)):
                pass
        except OSError:
            pass
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
    "forked child": calm,
    "replaced files": replace_files,
    "damaged frames": calm,
    "damaged records": calm,
}
# What is done before the run begins.
BEFORE = {"damaged frames": damage_frames, "damaged records": damage_records}
# The faults that concern one kind of data alone. Only tars and videos have checksums: other bytes are as they arrive.
KINDS = {"corrupt": "raw", "full disk": "raw", "damaged frames": "robot", "damaged records": "chat"}
ENDINGS = {"kill the trainer": (-signal.SIGKILL,), "interrupt": (-signal.SIGINT, -signal.SIGTERM, 130, 143)}
# Where nothing but time is lost, the whole stream must come.
HARMLESS = ("calm", "stop", "cut", "slow", "silent", "refuse", "short bodies", "corrupt", "forked child")


def play(place: Place, name: str, kind: Kind, rng: random.Random) -> str:
    """Play one round. Returns how it ended: ``whole``, ``error`` or ``ended``.

    Raises:
        Defect: something that must never happen.
    """
    place.proxy.clear()
    if name in BEFORE or rng.random() < 0.5:
        maintenance.clear(NodeCache.as_it_is(place.cache(kind)))
    engine = WORKERS if name == "kill a worker" else rng.choice(ENGINES)
    if name in BEFORE:
        BEFORE[name](place, kind, rng)
    local = local_copy(place, kind) if name == "replaced files" else None
    run = Run(place, kind, engine, fork=name == "forked child", local=local)
    try:
        FAULTS[name](run, rng)
        code = run.finish()
        ending = judge(run, name, code)
    except Defect as defect:
        raise Defect(f"{name}, {kind.name}, {run.engine}, from step {run.start} on: {defect}") from None
    finally:
        run.kill_all()
        place.proxy.clear()
        (place.folder / "disk" / "filling").unlink(missing_ok=True)
        if name in ("replace", "truncate", *BEFORE):
            place.restore(kind)
    check_what_is_left(place.cache(kind))
    place.compared += sum(len(line["samples"]) for line in run.lines)
    place.named_bad += sum(len(line["bad"]) for line in run.lines)
    place.next_step[kind.name] = run.start + len(run.lines)
    return ending


def local_copy(place: Place, kind: Kind) -> Path:
    """Return a folder with the files of a kind, made anew: with the times of the first ones."""
    local = place.folder / "local" / kind.name
    shutil.rmtree(local, ignore_errors=True)
    for name in kind.names:
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kind.folder / name, local / name)
    return local


def judge(run: Run, name: str, code: int) -> str:
    for place, line in enumerate(run.lines):
        step = run.start + place
        if line["step"] != step:
            raise Defect(f"step {line['step']} came where step {step} was due")
        wrong = [sample for sample, digest in line["samples"] if run.kind.truth[sample] != digest]
        if wrong:
            raise Defect(f"step {step}: {wrong} are not as in the undamaged data")
        names = [sample for sample, _ in line["samples"]]
        planned = run.place.planned(run.kind, step)
        other = [slot for slot in range(BATCH) if names[slot] != planned[slot] and slot not in line["bad"]]
        if other and name != "damaged records":  # which are no items of the run, so that its order is another
            raise Defect(f"step {step}: slots {other} hold other samples than planned")
    errors = run.errors()
    if code == 0 and len(run.lines) == STEPS:
        return "whole"
    if code in ENDINGS.get(name, ()):
        return "ended"
    if code == 3 and name not in HARMLESS and errors.strip().splitlines()[-1].startswith("error: "):
        return "error"
    raise Defect(f"{len(run.lines)} batches, code {code}; stderr: {errors}")


def check_what_is_left(folder: Path) -> None:
    found = maintenance.stat(NodeCache.as_it_is(folder))
    if found.pinned or found.reserved > BOUND:
        raise Defect(f"left in the cache: {found}")
    left = [path.name for path in (folder / CONTROL).rglob("*") if path.name.endswith((".partial", ".making"))]
    if left:
        raise Defect(f"left in the cache's folder: {left}")


@contextmanager
def place_of(folder: Path, server: S3Server, number: int, data: dict[str, Kind]) -> Iterator[Place]:
    """A place whose cache lies on a small disk of its own, where one can be mounted."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "penstock-faults", str(disk)]
    mounted = subprocess.run(command, capture_output=True).returncode == 0
    try:
        with FaultProxy(server.url) as proxy:
            yield Place(folder, server, f"faults-{os.getpid()}-{number}", proxy, mounted, data)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)


def campaign(rounds: int, seed: int, places: int, folder: Path, names: list[str]) -> Counter[tuple[str, str, str]]:
    """Play rounds at several places at once. Returns how many rounds of each fault and kind of data ended how."""
    found: Counter[tuple[str, str, str]] = Counter()
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
            turn = list(place.kinds)[(number + number // len(names)) % len(place.kinds)]
            kind = place.kinds[KINDS.get(name, turn)]
            try:
                ending = play(place, name, kind, random.Random(f"{seed}-{number}"))
            except BaseException as error:
                failed.append(error)
                raise
            with taking:
                found[name, kind.name, ending] += 1

    with ExitStack() as stack:
        server = stack.enter_context(running_server(folder / "s3"))
        os.environ.update(server.environment())
        os.environ["NO_PROXY"] = "127.0.0.1"
        data = {make.__name__: make(folder / make.__name__) for make in (kinds.raw, kinds.chat, kinds.robot)}
        ready = [stack.enter_context(place_of(folder / f"{number}", server, number, data)) for number in range(places)]
        threads = [threading.Thread(target=work, args=(place,)) for place in ready]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        compared, bad = (sum(getattr(place, name) for place in ready) for name in ("compared", "named_bad"))
        print(f"{compared:,} samples compared with undamaged data; {bad:,} were named as bad and replaced")
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
    for (name, kind, ending), count in sorted(found.items()):
        print(f"{name:>16}  {kind:<5}  {ending:<6} {count}")
    print(f"{arguments.rounds} rounds, seed {arguments.seed}: no defect, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
