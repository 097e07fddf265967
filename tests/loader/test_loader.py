"""Walking a feed: what a training loop sees, in whatever the batches are made."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.feed.batches import TooManyBad
from penstock.feed.lookup import Looked
from penstock.feed.making import StandIn
from penstock.loader.loader import pinned
from penstock.loader.processes import WorkerDied
from tests.loader.test_processes import alive, until
from tests.shards import small_run, write_shards

ENGINES = [(0, 0), (1, 0), (4, 0), (None, 1), (None, 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    return penstock.open(small_run(folder, batch_size=6, **options), rank=0, world=1)


def told(batch: dict[str, Any]) -> str:
    return str({**batch, "rows": batch["rows"].tolist()})


def worker_pids() -> list[int]:
    """This process's children that make batches."""
    own = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    return [pid for pid in map(int, own) if b"penstock.loader.child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.parametrize(("threads", "workers"), ENGINES)
def test_order_and_content_do_not_depend_on_who_makes_the_batches(
    folder: Path, threads: int | None, workers: int
) -> None:
    feed = opened(folder)
    with opened(folder).loader(threads=threads, workers=workers) as loader:
        assert [told(batch) for batch in islice(loader, 40)] == [told(feed.batch(step)) for step in range(40)]


@pytest.mark.parametrize(("threads", "workers"), [(2, 0), (None, 2)])
def test_a_second_for_goes_on_where_the_first_stopped(folder: Path, threads: int | None, workers: int) -> None:
    with opened(folder).loader(start=5, threads=threads, workers=workers) as loader:
        first = [batch["step"] for batch in islice(loader, 4)]
        for batch in loader:
            first.append(batch["step"])
            if len(first) == 9:
                break
        loader.close()  # ends threads and workers, not the walk
        first.append(next(loader)["step"])
    assert first == list(range(5, 15))


@pytest.mark.parametrize(("threads", "workers"), [(0, 0), (4, 0), (None, 2)])
def test_a_finite_run_ends_and_stays_at_its_end(folder: Path, threads: int | None, workers: int) -> None:
    feed = opened(folder, passes=1)
    with feed.loader(threads=threads, workers=workers) as loader:
        assert [batch["step"] for batch in loader] == list(range(len(feed)))
        assert list(loader) == []
        assert loader.state_dict() == feed.state(len(feed))


@pytest.mark.parametrize(
    "options",
    [{"threads": 2, "workers": 2}, {"workers": -1}, {"threads": -1}, {"prefetch": 0}],
)
def test_what_makes_no_sense_is_refused_at_once(folder: Path, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"threads|prefetch"):
        opened(folder).loader(**options)


def test_after_a_worker_was_killed_the_loader_goes_on_from_the_same_step(folder: Path) -> None:
    feed = opened(folder)
    with feed.loader(workers=2) as loader:
        seen = [told(batch) for batch in islice(loader, 10)]
        victim = worker_pids()[0]
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(WorkerDied, match=rf"worker process {victim} .*signal 9.* step \d+"):
            for batch in loader:
                seen.append(told(batch))
        step = loader.step
        assert step == len(seen)
        assert loader.state_dict() == feed.state(step)
        seen += [told(batch) for batch in islice(loader, 20)]
        assert victim not in worker_pids()
    assert seen == [told(feed.batch(step)) for step in range(step + 20)]


def test_after_an_exception_the_loader_goes_on_from_the_same_step(tmp_path: Path) -> None:
    write_shards(tmp_path)
    feed = opened(tmp_path)
    whole = [told(feed.batch(step)) for step in range(30)]
    away, back = tmp_path / "away.tar", tmp_path / "bengali-1.tar"
    for threads, workers in ((0, 0), (4, 0), (None, 2)):
        with opened(tmp_path).loader(threads=threads, workers=workers) as loader:
            back.rename(away)
            seen = []
            with pytest.raises(FileNotFoundError, match=r"bengali-1\.tar"):
                for batch in loader:
                    seen.append(told(batch))
            assert loader.step == len(seen)
            away.rename(back)
            seen += [told(batch) for batch in islice(loader, 30 - len(seen))]
        assert seen == whole


@pytest.mark.parametrize("left", ["closed", "forgotten", "left by with", "ended by an error"])
def test_workers_and_threads_end_with_their_loader(folder: Path, left: str) -> None:
    for threads, workers in ((None, 1), (3, 0)):
        loader = opened(folder).loader(threads=threads, workers=workers)
        next(loader)
        pids = worker_pids()
        assert len(pids) == workers
        if left == "closed":
            loader.close()
        elif left == "forgotten":
            del loader
            gc.collect()
        elif left == "left by with":
            with loader:
                pass
        else:
            with pytest.raises(KeyboardInterrupt), loader:
                raise KeyboardInterrupt
        assert until(lambda pids=pids: not any(map(alive, pids)))
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock_")]


@pytest.mark.parametrize("engine", ["threads=4", "workers=2"])
def test_a_script_that_just_ends_leaves_nothing_and_says_nothing(folder: Path, engine: str) -> None:
    script = (
        f"import penstock\nfrom pathlib import PosixPath\n"
        f"loader = penstock.open({small_run(folder, batch_size=6)!r}).loader({engine})\n"
        "print([next(loader)['step'] for _ in range(3)])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1, 2]\n", "")


def test_ctrl_c_is_the_trainers_alone(folder: Path) -> None:
    script = (
        "import os, signal, time, penstock\nfrom pathlib import Path, PosixPath\n"
        # Where the tests run in a shell's background Ctrl-C is ignored, and that is inherited.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"loader = penstock.open({small_run(folder, batch_size=6)!r}).loader(workers=2)\n"
        # Not one long sleep: a signal that comes right before it would be noticed after it.
        "next(loader)\nprint('running', flush=True)\nfor _ in range(6_000): time.sleep(0.1)\n"
    )
    trainer = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert trainer.stdout is not None and trainer.stdout.readline() == "running\n"
    pids = [int(pid) for pid in Path(f"/proc/{trainer.pid}/task/{trainer.pid}/children").read_text().split()]
    assert len(pids) == 2
    os.killpg(trainer.pid, signal.SIGINT)  # what a terminal does: to the trainer and its workers alike
    _, said = trainer.communicate(timeout=100)
    assert trainer.returncode == -signal.SIGINT
    assert said.count("Traceback") == 1 and said.rstrip().endswith("KeyboardInterrupt")
    assert until(lambda: not any(map(alive, pids)))


def test_no_descriptor_or_thread_is_left_over_by_twenty_loaders(folder: Path) -> None:
    feed = opened(folder)

    def used() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    def use(threads: int | None, workers: int) -> None:
        with feed.loader(threads=threads, workers=workers) as loader:
            list(islice(loader, 3))

    use(4, 0)
    use(None, 1)
    before = used()
    for _ in range(20):
        use(4, 0)
    for _ in range(3):
        use(None, 1)
    assert used() == before


def test_a_run_stops_when_more_samples_are_bad_than_allowed(tmp_path: Path) -> None:
    write_shards(tmp_path, {"assamese": [40]})
    with open(tmp_path / "train.tsv", "a") as filelist:
        filelist.writelines(f"assamese-0.tar\tmissing_{number}\tassamese\t1.5\n" for number in range(10))
    for threads, workers in ((0, 0), (None, 1)):
        with (
            opened(tmp_path, max_bad=0.1).loader(threads=threads, workers=workers) as loader,
            pytest.raises(
                TooManyBad,
                match=r"of 10\d\d samples were bad, more than max_bad: 0.1 allows from 1,000 samples on; .*missing_",
            ),
        ):
            for batch in loader:
                assert batch["step"] < 200
        seen = sum(len(batch["bad"]) for batch in islice(opened(tmp_path, max_bad=1.0).loader(threads=0), 200))
        assert seen > 100, "and goes on where all of them may be"


def test_the_time_a_step_was_waited_for_is_told_beside_the_sum(tmp_path: Path) -> None:
    write_shards(tmp_path, {"hindi": [40]})
    feed = penstock.open(small_run(tmp_path, global_batch_size=2))
    make = feed._maker.make

    def slow(looked: Looked, stand_in: StandIn) -> Any:
        time.sleep(0.05 if looked.step == 3 else 0)
        return make(looked, stand_in)

    feed._maker.make = slow  # type: ignore[method-assign]
    with feed.loader(threads=0) as loader:
        stalls = [(loader.stall, batch["step"]) for batch in islice(loader, 6)]
    assert all(stall >= 0.05 for stall, step in stalls if step == 3)
    assert loader.waited == pytest.approx(sum(stall for stall, _ in stalls))


def test_pinned_memory_without_an_accelerator_is_no_more_than_one_warning(folder: Path) -> None:
    with (
        pytest.warns(UserWarning, match="finds no accelerator") as caught,
        opened(folder).loader(threads=0, pin_memory=True) as loader,
    ):
        batches = [told(batch) for batch in islice(loader, 3)]
    assert len(caught) == 1
    assert batches == [told(opened(folder).batch(step)) for step in range(3)]


def test_pinning_reaches_every_tensor_of_a_batch() -> None:
    class Tensor:
        def __init__(self, pinned: bool = False) -> None:
            self.pinned = pinned

        def pin_memory(self) -> "Tensor":  # a stand-in: nothing here can page-lock for a device
            return Tensor(True)

    batch = pinned({"wav": Tensor(), "media": [Tensor(), {"image": (Tensor(), "text")}], "ids": ["a"], "step": 3})
    assert batch["wav"].pinned and batch["media"][0].pinned and batch["media"][1]["image"][0].pinned
    assert batch["media"][1]["image"][1] == "text" and batch["ids"] == ["a"] and batch["step"] == 3


SCRIPT = """
import sys, penstock
from penstock.pipelines.raw import RawPipeline
from penstock.recipes.raw import Raw

class Mine(Raw):
    pass

class MyPipeline(RawPipeline):
    def recipe(self, options):
        return Mine()

feed = penstock.open({run!r}, recipe="mine", pipelines={{"mine": MyPipeline()}})
with feed.loader(threads=2) as loader:
    print(next(loader)["step"])
with feed.loader(workers=1) as loader:
    next(loader)
"""


def test_a_class_of_the_script_works_in_threads_and_is_one_clear_error_in_workers(folder: Path) -> None:
    run = {key: str(value) if isinstance(value, Path) else value for key, value in small_run(folder).items()}
    run |= {"batch_size": 6, "cache": {"dir": str(folder / "cache"), "size": "1GB"}}
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(run=run)], capture_output=True, text=True, check=False)
    assert done.stdout == "0\n"
    assert "cannot import what the trainer's script defines" in done.stderr
    assert "or use threads instead of workers" in done.stderr


def test_length_is_that_of_the_whole_run_wherever_the_loader_is(folder: Path) -> None:
    with opened(folder, passes=1).loader(start=2) as loader:
        assert len(loader) == 6 and len(list(loader)) == 4 and len(loader) == 6
    endless = opened(folder).loader()
    assert endless
    with pytest.raises(TypeError, match="an endless feed has no length; set passes for a finite one"):
        len(endless)


@pytest.mark.parametrize("workers", [0, 1])
def test_fields_are_those_asked_for(folder: Path, workers: int, caplog: pytest.LogCaptureFixture) -> None:
    feed = opened(folder)
    with feed.loader(workers=workers, fields=["ids", "records"]) as loader:
        batch = next(loader)
        assert batch == {name: feed.batch(0)[name] for name in ("ids", "records")}
        assert loader.state_dict()["step"] == 1 and not caplog.records


def test_fields_of_the_config_hold_for_loaders_and_as_a_dataset(folder: Path) -> None:
    feed = opened(folder, fields=["ids"])
    assert list(next(feed.loader())) == ["ids"] == list(feed[3])
    assert set(next(feed.loader(fields=["ids", "step"]))) == {"ids", "step"}
    assert "sources" in feed.batch(0)


def test_a_field_that_the_first_batch_lacks_is_named_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(folder).loader(fields=["id", "step"]) as loader:
        assert [next(loader), next(loader)] == [{"step": 0}, {"step": 1}]
    assert [record.getMessage() for record in caplog.records] == [
        "fields: the first batch has no field 'id'; did you mean ids?"
    ]


def test_fields_that_are_one_text_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"fields must be a list of names, not 'ids'; write \['ids'\]"):
        opened(folder).loader(fields="ids")
