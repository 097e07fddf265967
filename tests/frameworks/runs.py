"""Runs of several processes, killed and resumed, and what they trained on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock import Feed

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples" / "frameworks"
PATIENCE = 240  # seconds, for a busy machine; nothing is measured by it

Batches = dict[int, list[str]]
"""Ids of the global batch of each step."""


def environment(**more: object) -> dict[str, str]:
    """Return this process's environment without ranks, with our sources first and one thread per process."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    paths = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": paths, "OMP_NUM_THREADS": 1, "HF_HUB_OFFLINE": 1, "CUDA_VISIBLE_DEVICES": "", **more}
    return kept | {name: str(value) for name, value in own.items()}


def _stat(pid: int | str) -> list[str]:
    """Return the state, the parent and more of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    every = (path.name for path in Path("/proc").iterdir() if path.name.isdigit())
    return [int(each) for each in every if _stat(each)[1:2] == [str(pid)]]


def is_running(pid: int) -> bool:
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


class Run:
    """A command in a session of its own."""

    def __init__(self, command: Sequence[object], folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._output = (folder / "output.txt").open("a+")
        self.process = subprocess.Popen(
            list(map(str, command)),
            cwd=REPOSITORY,
            env=env,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def output(self) -> str:
        return (self.folder / "output.txt").read_text()

    def kill(self) -> None:
        """Kill all processes of the run with SIGKILL, and wait until they are gone.

        torchrun starts each rank in a session of its own, which outlives the launcher.
        """
        groups = [self.process.pid, *children(self.process.pid)]
        for group in groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.process.wait()
        deadline = time.monotonic() + PATIENCE
        while any(is_running(group) for group in groups):
            assert time.monotonic() < deadline, f"{groups} go on after SIGKILL"
            time.sleep(0.01)

    def wait_for(self, step: int, rank: int = 0) -> None:
        """Wait until a rank has trained on a step."""
        deadline = time.monotonic() + PATIENCE
        while max(steps_of(self.folder, rank), default=-1) < step:
            assert self.process.poll() is None, f"the run ended before step {step}:\n{self.output()[-4000:]}"
            assert time.monotonic() < deadline, f"step {step} did not come:\n{self.output()[-4000:]}"
            time.sleep(0.01)

    def kill_after(self, step: int) -> None:
        """Wait until the first rank has trained on a step, then kill all processes."""
        self.wait_for(step)
        self.kill()

    def finish(self) -> str:
        """Wait for a good end, and return what the run has printed."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run does not end:\n{self.output()[-4000:]}") from None
        assert code == 0, self.output()[-6000:]
        return self.output()


@contextmanager
def torchrun(
    script: Path | str, *args: object, folder: Path, processes: int = 2, restarts: int = 0, **env: object
) -> Iterator[Run]:
    """Start a script with torchrun, on a free port. The run is killed at the end of the block if it goes on.

    Args:
        script: Script of ``examples/frameworks``, or any path.
        args: Arguments of the script. None may be called ``--run``, which torchrun takes for one of its own options.
        folder: Run folder, whose logs ``Run.wait_for`` reads. The script is not told of it.
        processes: Number of processes.
        restarts: Number of times that torchrun starts all processes again after one has failed.
        env: More environment variables.
    """
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    run = Run([*launcher, f"--max-restarts={restarts}", EXAMPLES / script, *args], folder, environment(**env))
    try:
        yield run
    finally:
        run.kill()


def lines(folder: Path, rank: int, name: str = "trained") -> list[dict[str, Any]]:
    """Return the complete lines of a rank's log, in order."""
    path = folder / f"{name}.{rank}.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def steps_of(folder: Path, rank: int, name: str = "trained") -> list[int]:
    return [line["step"] for line in lines(folder, rank, name)]


def trained(folder: Path, name: str = "trained") -> Batches:
    """Return the global batch of every step, by the logs of all ranks: ``{"step", "world", "ids", …}`` per line.

    A run that was killed logs the steps after its last checkpoint again when it resumes, perhaps on fewer ranks. The
    last line of a rank about a step counts, and of the ranks those of the world that rank 0 had then.
    """
    of_rank: dict[int, dict[int, list[str]]] = {}
    worlds: dict[int, int] = {}
    for path in folder.glob(f"{name}.*.jsonl"):
        rank = int(path.name.split(".")[-2])
        for line in lines(folder, rank, name):
            of_rank.setdefault(rank, {})[line["step"]] = line["ids"]
            if rank == 0:
                worlds[line["step"]] = line["world"]
    return {
        step: [id for rank in range(world) for id in of_rank[rank][step] if id]
        for step, world in sorted(worlds.items())
    }


def resumes(folder: Path, rank: int = 0, name: str = "trained") -> list[int]:
    """Return the steps at which a rank's log begins again. Otherwise steps are consecutive, which is asserted."""
    steps = steps_of(folder, rank, name)
    again = [step for before, step in pairwise(steps) if step <= before]
    jumps = [(before, step) for before, step in pairwise(steps) if step > before + 1]
    assert not jumps, f"steps are missing between {jumps}"
    return again


def planned(feed: Feed, steps: int) -> Batches:
    """Return the ids of the global batches of a run's first steps, as its plan has them."""
    return {step: [line.item for line in feed.lines(step, rank=0, world=1)] for step in range(steps)}
