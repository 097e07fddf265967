"""Batches from processes of our own: order, what travels, what is held, who dies."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.feed.steps import Steps
from penstock.loader.processes import Processes, WorkerDied
from tests.loader.feeds import Arrays, Bytes, Empty, Failing, Growing, Nested, OddError, Tensors, Unopenable, walking


@contextmanager
def running(feed: Any, steps: Any, workers: int = 1) -> Iterator[Iterator[Any]]:
    engine = Processes(walking(feed), Steps(steps.start, steps.stop), workers)
    try:
        yield iter(engine)
    finally:
        engine.close()


def alive(pid: int) -> bool:
    """Whether a process still runs; one that ended and waits to be fetched by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Any) -> bool:
    """Whether something becomes true before a deadline that is far beyond what it takes."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(condition())


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_batches_come_in_order_from_all_workers_and_then_end(workers: int) -> None:
    with running(Arrays(), range(5, 26), workers) as batches:
        pids = set()
        for step, batch in zip(range(5, 26), batches, strict=True):
            assert batch["step"] == step and (batch["wav"] == step).all()
            pids.add(batch["pid"])
        assert len(pids) == workers and os.getpid() not in pids


def test_batches_that_are_held_stay_as_they_were_while_later_ones_come() -> None:
    with running(Arrays(), range(60), 2) as batches:
        held = list(islice(batches, 20))
        for batch in islice(batches, 20):
            batch["wav"][:] = -1  # nobody else's business
        assert [float(batch["wav"].min()) for batch in held] == list(range(20))
        assert [float(batch["wav"].max()) for batch in held] == list(range(20))
        assert all((batch["wav"] == batch["step"]).all() for batch in batches)
    assert all((batch["wav"] == batch["step"]).all() for batch in held), "also when the workers are gone"


def test_a_part_of_a_batch_keeps_its_bytes_too() -> None:
    with running(Arrays(), range(40), 1) as batches:
        parts = [next(batches)["wav"][10:20].reshape(2, 5) for _ in range(20)]
        views = [memoryview(next(batches)["wav"]) for _ in range(20)]
    assert [set(part.ravel().tolist()) for part in parts] == [{float(step)} for step in range(20)]
    assert [view[-1] for view in views] == [float(step) for step in range(20, 40)]


def test_a_batch_let_go_gives_its_memory_to_a_later_one_and_one_held_does_not() -> None:
    def place(batch: Any) -> int:
        return int(batch["wav"].__array_interface__["data"][0])

    with running(Arrays(), range(200), 2) as batches:
        held = next(batches)
        places = [place(next(batches)) for _ in range(199)]
        assert place(held) not in places
        assert len(set(places)) <= 6, "slots come back: 2 workers with 2 batches each, and 2 for the caller"


def test_arrays_of_any_size_travel_up_and_down() -> None:
    with running(Growing(), range(60), 2) as batches:
        held = [next(batches) for _ in range(10)]
        for batch in [*held, *batches]:
            assert len(batch["tokens"]) == 1 + (batch["step"] * 7919) % 50_000
            assert (batch["tokens"] == batch["step"]).all()


def test_torch_tensors_of_every_kind_travel() -> None:
    import torch

    with running(Tensors(), range(6)) as batches:
        for step, batch in enumerate(batches):
            expected = Tensors()[step]
            for name in ("float", "half", "bool", "transposed", "scalar", "empty"):
                assert batch[name].dtype == expected[name].dtype
                assert torch.equal(batch[name], expected[name]), name
            assert np.array_equal(batch["nested"]["numpy"], np.full((2, 2), step))
            assert torch.equal(batch["nested"]["list"][0], expected["nested"]["list"][0])
            batch["float"] += 1  # writable, as what a recipe makes
            batch["nested"]["numpy"] += 1


def test_nested_tensors_and_lists_of_media_travel() -> None:
    with running(Nested(), range(4)) as batches:
        for step, batch in enumerate(batches):
            rows = [[step] * (1 + size) for size in range(3)]
            assert [each.tolist() for each in batch["jagged"].unbind()] == rows
            assert [each.tolist() for each in batch["strided"].unbind()] == rows
            assert [each.tolist() for each in batch["media"]["images"]] == rows
            assert [each.tolist() for each in batch["media"]["clips"]] == rows
            assert batch["media"]["files"] == (b"a" * step, {"rate": step})


def test_an_empty_array_travels() -> None:
    with running(Empty(), range(6)) as batches:
        assert [batch["images"].shape for batch in batches] == [(0, 3)] * 6


def test_batches_of_many_bytes_travel() -> None:
    with running(Bytes(), range(6), 2) as batches:
        assert all(batch["bytes"] == Bytes()[step]["bytes"] for step, batch in enumerate(batches))


def test_memory_does_not_grow_with_steps_even_without_garbage_collection() -> None:
    """Training scripts often switch the collector off, to keep it out of their steps."""
    with running(Arrays(100), range(100_000)) as batches:
        gc.collect()
        gc.disable()
        try:
            counts = []
            for _ in range(2):
                for _ in islice(batches, 300):
                    pass
                counts.append(len(gc.get_objects()))
            assert counts[1] - counts[0] < 100, "objects left over by 300 batches"
        finally:
            gc.enable()


def test_an_exception_comes_with_its_type_its_text_and_the_workers_traceback(tmp_path: Path) -> None:
    with (
        running(Failing("raise", tmp_path), range(10), 2) as batches,
        pytest.raises(LookupError, match="no such thing at step 3") as caught,
    ):
        list(batches)
    (note,) = caught.value.__notes__
    assert "in a worker process" in note and "__getitem__" in note and "feeds.py" in note


def test_an_exception_that_does_not_travel_comes_in_words(tmp_path: Path) -> None:
    with (
        running(Failing("odd", tmp_path), range(10)) as batches,
        pytest.raises(RuntimeError, match=f"{OddError.__name__}: step 3: an odd one"),
    ):
        list(batches)


def test_a_batch_that_does_not_travel_is_an_exception_and_no_death(tmp_path: Path) -> None:
    with running(Failing("unpicklable batch", tmp_path), range(10)) as batches, pytest.raises(Exception) as caught:
        list(batches)
    assert not isinstance(caught.value, WorkerDied)
    assert "lambda" in str(caught.value)


def test_a_feed_that_a_worker_cannot_open_says_why() -> None:
    with (
        running(Unopenable(), range(10)) as batches,
        pytest.raises(FileNotFoundError, match="the filelist is gone"),
    ):
        next(batches)


def test_a_worker_that_is_killed_is_named_with_its_pid_the_signal_and_the_step() -> None:
    with running(Arrays(), range(1000), 2) as batches:
        pid = next(batches)["pid"]
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match=rf"worker process {pid} was ended by signal 9 .* step \d+"):
            list(batches)


@pytest.mark.parametrize("asked", [4, 1000])
def test_a_worker_that_is_killed_in_the_middle_of_a_batch_is_named_too(tmp_path: Path, asked: int) -> None:
    """With more asked of it, and with nothing."""
    with running(Failing("killed", tmp_path), range(asked), 1) as batches:
        pid = [next(batches) for _ in range(3)][2]["pid"]
        with pytest.raises(WorkerDied, match=rf"worker process {pid} was ended by signal 9 while it made step 3"):
            list(batches)


def test_what_a_worker_had_made_before_it_was_killed_is_handed_out(tmp_path: Path) -> None:
    """Also with requests that it never read."""
    engine = Processes(walking(Failing("killed", tmp_path)), Steps(0, 6), 1, ahead=6)
    try:
        batches = iter(engine)
        pid = next(batches)["pid"]
        assert until(lambda: not alive(pid))
        assert [next(batches)["step"] for _ in range(2)] == [1, 2]
        with pytest.raises(WorkerDied, match="while it made step 3"):
            next(batches)
    finally:
        engine.close()


def test_an_iteration_that_is_begun_anew_goes_on_with_the_next_worker() -> None:
    engine = Processes(walking(Arrays()), Steps(0, 12), 2)
    try:
        held = [next(iter(engine)) for _ in range(12)]
        pids = [batch["pid"] for batch in held]
        assert pids == 6 * pids[:2] and pids[0] != pids[1]
        assert [float(batch["wav"].max()) for batch in held] == list(range(12))
        assert [float(batch["wav"].min()) for batch in held] == list(range(12))
    finally:
        engine.close()


def test_a_worker_that_ends_by_itself_is_named_with_its_code(tmp_path: Path) -> None:
    with (
        running(Failing("exit", tmp_path), range(10)) as batches,
        pytest.raises(WorkerDied, match="ended with code 7 while it made step 3"),
    ):
        list(batches)


def test_workers_end_by_themselves_when_the_trainer_is_killed(tmp_path: Path) -> None:
    script = (
        "import time\nfrom penstock.feed.steps import Steps\nfrom penstock.loader.processes import Processes\n"
        "from tests.loader.feeds import Slow, walking\n"
        "batches = iter(Processes(walking(Slow()), Steps(0), 3))\n"
        "print(*{next(batches)['pid'] for _ in range(9)}, flush=True)\ntime.sleep(600)\n"
    )
    root = Path(__file__).parents[2]
    trainer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=root)
    assert trainer.stdout is not None
    pids = [int(pid) for pid in trainer.stdout.readline().split()]
    assert len(pids) == 3 and all(map(alive, pids))
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    assert until(lambda: not any(map(alive, pids)))


def test_closing_ends_the_workers() -> None:
    engine = Processes(walking(Arrays()), Steps(0, 1000), 2)
    pids = {next(iter(engine))["pid"], *(worker.process.pid for worker in engine._workers)}
    engine.close()
    assert not any(map(alive, pids))


@pytest.mark.long
def test_no_descriptor_is_left_over_by_ten_engines() -> None:
    def used() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def use(workers: int) -> None:
        with running(Arrays(10), range(100), workers) as batches:
            list(islice(batches, 5))

    use(1)
    before = used()
    for _ in range(10):
        use(1)
    assert used() == before


def test_a_worker_finds_what_the_trainer_found_by_its_own_path(tmp_path: Path) -> None:
    """A trainer may have put the package, or its own modules, on ``sys.path`` by itself."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "pickle.py").write_text("raise SystemExit('a file of the working folder was taken')\n")
    root = Path(__file__).parents[2]
    script = (
        f"import sys\nsys.path[:] = {[str(root / 'src'), str(root), *sys.path]!r}\n"
        "from penstock.feed.steps import Steps\nfrom penstock.loader.processes import Processes\n"
        "from tests.loader.feeds import Arrays, walking\n"
        "engine = Processes(walking(Arrays()), Steps(0, 3), 1)\n"
        "print([batch['step'] for batch in engine])\nengine.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, cwd=tmp_path / "home", check=False
    )
    assert (done.stdout, done.stderr) == ("[0, 1, 2]\n", "")
