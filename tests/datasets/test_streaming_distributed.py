"""Ranks that ``accelerate launch`` starts share each epoch: no frame twice, none lost. Two real processes."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat.lerobot.datasets import FRAMES, flat, write_plain
from tests.datasets import prepare, receive

pytestmark = pytest.mark.long

PROCESSES = 2
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch"]
# Not --cpu: with it, Accelerate starts one process, whatever --num_processes says. Without a GPU they use gloo.
OPTIONS = ["--multi_gpu", f"--num_processes={PROCESSES}", "--num_machines=1", "--main_process_port=0"]
QUIET = ["--mixed_precision=no", "--dynamo_backend=no"]


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> list[dict[str, Any]]:
    """What each rank received."""
    found = written_by(receive.__file__, tmp_path_factory, worker_id)
    if len(found) < PROCESSES or any(each["world"] < PROCESSES for each in found):
        require_processes(len(found))
    return found


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> list[dict[str, str]]:
    """What became of loops over prepared loaders, in each rank."""
    found = written_by(prepare.__file__, tmp_path_factory, worker_id)
    if len(found) < PROCESSES:
        require_processes(len(found))
    return found


def written_by(script: str, factory: pytest.TempPathFactory, worker_id: str) -> list[Any]:
    """What each rank of a script wrote. Launched once, also if several processes run the tests."""
    session = factory.getbasetemp()
    shared = session if worker_id == "master" else session.parent
    folder = shared / Path(script).stem
    with (shared / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            launch(script, write_plain(shared / f"{folder.name}.data"), folder)
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def launch(script: str, root: Path, folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    environment["OMP_NUM_THREADS"] = "1"
    command = [*LAUNCH, *OPTIONS, *QUIET, script, str(root), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]


def require_processes(count: int) -> None:
    """Skip where the launcher can't start two processes. Fail where tests must be complete."""
    message = f"accelerate launch started {count} of {PROCESSES} processes: NOTHING about ranks was tested"
    if os.environ.get("CI") or os.environ.get("PENSTOCK_REQUIRE_RANKS"):
        pytest.fail(message)
    pytest.skip(message)


def test_with_fewer_processes_nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PENSTOCK_REQUIRE_RANKS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="started 1 of 2 processes"):
        require_processes(1)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="started 1 of 2 processes"):
        require_processes(1)


def test_rank_and_world_are_found(received: list[dict[str, Any]]) -> None:
    assert [each["world of the dataset"] for each in received] == [PROCESSES] * PROCESSES


@pytest.mark.parametrize("loader", ["plain", "workers"])
def test_ranks_are_disjoint_and_complete_in_every_epoch(received: list[dict[str, Any]], loader: str) -> None:
    for epoch in range(2):
        own = [flat(each[loader][epoch]) for each in received]
        assert not set(own[0]) & set(own[1])
        assert sorted(own[0] + own[1]) == list(range(FRAMES))
    assert received[0][loader][0] != received[0][loader][1]


def test_ranks_receive_the_same_with_and_without_workers(received: list[dict[str, Any]]) -> None:
    for each in received:
        assert each["plain"] == each["workers"]


def test_ranks_take_as_many_steps(received: list[dict[str, Any]]) -> None:
    assert len({tuple(map(len, each["plain"])) for each in received}) == 1


def test_one_state_resumes_every_rank(received: list[dict[str, Any]]) -> None:
    for each in received:
        per_epoch = len(each["plain"][0])
        assert per_epoch == 7
        assert each["resumed"][0] == each["plain"][1][9 - per_epoch :]


def test_a_loader_that_accelerate_prepares_gives_every_frame_once_if_the_dataset_is_of_one_rank(
    received: list[dict[str, Any]],
) -> None:
    for epoch in range(2):
        assert sorted(flat(received[0]["prepared"][epoch] + received[1]["prepared"][epoch])) == list(range(FRAMES))


@pytest.mark.parametrize("dispatch", prepare.DISPATCH)
@pytest.mark.parametrize("way", prepare.WAYS)
def test_a_prepared_loader_of_a_dataset_that_knows_its_rank_is_refused_in_one_sentence(
    prepared: list[dict[str, str]], dispatch: str, way: str
) -> None:
    told = [each[f"{dispatch}: {way}"] for each in prepared if f"{dispatch}: {way}" in each]
    assert len(told) == (1 if prepare.DISPATCH[dispatch] and way in prepare.LATE else PROCESSES)
    for words in told:
        assert words.rstrip().endswith(
            "this dataset gives each of 2 ranks its own samples, and Accelerate would divide them once more, so that "
            "most are lost: do not pass its DataLoader to accelerator.prepare, or give rank=0, world_size=1 to the "
            "dataset"
        )
        assert words.startswith("Caught RuntimeError" if way == "forked workers" else "this dataset")


def test_a_loader_that_is_not_prepared_is_not_refused(prepared: list[dict[str, str]]) -> None:
    for each in prepared:
        assert {each[f"{dispatch}: not prepared"] for dispatch in prepare.DISPATCH} == {"7 batches"}
