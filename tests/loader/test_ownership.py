"""A loader belongs to one process and to one thread at a time: batches are never doubled or missing."""

import json
import os
import pickle
import threading
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.feed.steps import Steps
from penstock.loader.processes import Processes
from penstock.observe.ledger import Ledger
from tests.loader.feeds import Arrays, walking
from tests.shards import small_run, write_shards

ENGINES = [(0, 0), (4, 0), (None, 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    return penstock.open(small_run(folder, batch_size=6, **options), rank=0, world=1)


def in_a_forked_child(call: Any) -> str:
    """What a call returns or raises in a forked child, in words."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            said = str(call())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize(("threads", "workers"), ENGINES)
def test_a_forked_child_gets_an_error_and_the_parent_every_batch_in_order(
    folder: Path, tmp_path: Path, threads: int | None, workers: int
) -> None:
    feed = opened(folder, usage={"log": tmp_path / "usage.jsonl", "every": 5})
    with feed.loader(threads=threads, workers=workers) as loader:
        steps = [batch["step"] for batch in islice(loader, 3)]
        for _ in range(2):
            assert "RuntimeError: this loader belongs to the parent process" in in_a_forked_child(lambda: next(loader))
            assert in_a_forked_child(loader.close) == "None"
            steps += [batch["step"] for batch in islice(loader, 4)]
        state = loader.state_dict()
        assert "RuntimeError" in in_a_forked_child(lambda: loader.load_state_dict(state))
        steps += [batch["step"] for batch in islice(loader, 4)]
    assert steps == list(range(15))
    assert [line["steps"] for line in lines(tmp_path)] == [[0, 5], [5, 10], [10, 11], [11, 15]]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / "usage.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("threads", "workers"), ENGINES)
def test_two_threads_get_every_batch_once_or_a_clear_error(folder: Path, threads: int | None, workers: int) -> None:
    loader = opened(folder).loader(threads=threads, workers=workers)
    taken: list[int] = []
    said: set[str] = set()
    enough = 300

    def take() -> None:
        while len(taken) < enough:
            try:
                taken.append(next(loader)["step"])
            except RuntimeError as error:
                said.add(str(error))

    threads_of_the_caller = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads_of_the_caller:
        thread.start()
    for thread in threads_of_the_caller:
        thread.join()
    assert sorted(taken) == list(range(len(taken))) and loader.step == len(taken)
    assert all("another thread is taking a batch from this loader" in text for text in said)
    loader.close()


def test_the_second_of_two_threads_gets_the_error_and_the_first_its_batch(folder: Path) -> None:
    feed = opened(folder)
    inside = threading.Event()
    go_on = threading.Event()

    class Held:
        """A ledger that holds up the thread that takes a batch."""

        def record(self, batch: dict[str, Any], stalled: float = 0.0) -> None:
            inside.set()
            assert go_on.wait(60)

        def flush(self) -> None: ...

        def close(self) -> None: ...

    loader = penstock.loader.Loader(feed, threads=1, ledger=Held())
    taken: list[int] = []
    first = threading.Thread(target=lambda: taken.append(next(loader)["step"]))
    first.start()
    assert inside.wait(60)
    with pytest.raises(RuntimeError, match="another thread is taking a batch from this loader"):
        next(loader)
    with pytest.raises(RuntimeError, match="another thread"):
        loader.load_state_dict(feed.state(7))
    go_on.set()
    first.join()
    assert [*taken, next(loader)["step"]] == [0, 1]
    loader.close()


def test_a_loader_does_not_travel_to_another_process_and_says_what_does(folder: Path) -> None:
    loader = opened(folder).loader()
    with pytest.raises(TypeError, match=r"pass the feed, and call feed\.loader"):
        pickle.dumps(loader)
    with pytest.raises(TypeError, match="pass the feed"):
        get_context("spawn").Process(target=next, args=(loader,)).start()


def test_an_answer_that_another_process_took_is_noticed() -> None:
    """Answers carry their step: the order never rests on nobody else reading from the socket."""
    engine = Processes(walking(Arrays()), Steps(0, 12), 2)
    try:
        batches = iter(engine)
        assert next(batches)["step"] == 0
        assert in_a_forked_child(lambda: len(engine._workers[1].socket.recv(1000))) not in ("", "0")
        with pytest.raises(RuntimeError, match=r"answered step 3 instead of step 1"):
            next(batches)
    finally:
        engine.close()


@pytest.mark.parametrize(("threads", "workers"), ENGINES)
def test_ctrl_c_while_a_batch_is_recorded_loses_no_batch(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int | None, workers: int
) -> None:
    feed = opened(folder, usage={"log": tmp_path / "usage.jsonl", "every": 5})

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with feed.loader(threads=threads, workers=workers) as loader:
        steps = [batch["step"] for batch in islice(loader, 3)]
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "record", interrupt)
            with pytest.raises(KeyboardInterrupt):
                next(loader)
        assert loader.state_dict() == feed.state(3)
        steps += [batch["step"] for batch in islice(loader, 3)]
    assert steps == list(range(6))


def test_a_checkpoint_may_be_saved_in_a_thread_of_its_own(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(folder, usage={"log": log, "every": 3, "ids": True})
    failed: list[BaseException] = []
    done = threading.Event()

    def save(loader: Any) -> None:
        try:
            while not done.is_set():
                loader.state_dict()
        except BaseException as error:
            failed.append(error)

    with feed.loader(threads=2) as loader:
        saver = threading.Thread(target=save, args=(loader,))
        saver.start()
        steps = [batch["step"] for batch in islice(loader, 200)]
        done.set()
        saver.join()
    assert not failed
    assert steps == list(range(200))
    told = [step for line in map(json.loads, log.read_text().splitlines()) for step in range(*line["steps"])]
    assert told == steps
