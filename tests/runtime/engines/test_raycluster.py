"""The Ray engine over a real cluster of this machine: every task once, whatever happens to the workers."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.engines import raycluster
from penstock.runtime.engines.engine import WorkerLost
from penstock.runtime.engines.raycluster import ClusterError, RayEngine
from tests.runtime.engines.clusters import running_cluster, separate_cluster
from tests.runtime.engines.test_local import Dying, Slow, square

pytestmark = pytest.mark.scale


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with running_cluster():
        yield


def test_every_task_has_one_outcome_and_an_error_is_one(cluster: None) -> None:
    outcomes = {outcome.task: outcome for outcome in RayEngine().map(square, range(40))}
    assert sorted(outcomes) == list(range(40))
    assert all(outcome.get() == task * task for task, outcome in outcomes.items() if task != 13)
    with pytest.raises(ValueError, match="13 is refused"):
        outcomes[13].get()


def test_tasks_of_a_killed_worker_are_made_again(cluster: None, tmp_path: Path) -> None:
    outcomes = list(RayEngine().map(Dying(tmp_path, always=False), range(12)))
    assert sorted(outcome.get()[0] for outcome in outcomes) == list(range(12))
    assert {path.name for path in tmp_path.iterdir()} == {"3", "7"}


def test_a_task_that_kills_every_worker_is_named_and_the_others_are_made(cluster: None, tmp_path: Path) -> None:
    outcomes = {each.task: each for each in RayEngine().map(Dying(tmp_path, always=True), range(9))}
    assert {task for task, each in outcomes.items() if isinstance(each.error, WorkerLost)} == {3, 7}
    assert len(outcomes) == 9


def test_tasks_are_taken_when_one_has_ended(cluster: None) -> None:
    taken = []

    def tasks() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    for done, _ in enumerate(RayEngine(at_once=3).map(abs, tasks()), 1):
        assert len(taken) <= done + 3


def test_closing_it_cancels_its_tasks(cluster: None) -> None:
    run = RayEngine().map(Slow(), [0, 3_600, 3_600])
    assert next(run).task == 0
    run.close()
    assert [each.get() for each in RayEngine().map(abs, [-1])] == [1], "the cores are free again"


@pytest.mark.parametrize("package", ["penstock", "Python"])
def test_workers_with_another_version_are_one_sentence(
    cluster: None, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = raycluster._versions()
    monkeypatch.setattr(raycluster, "_versions", lambda: {**versions, package: "9.9"})
    with pytest.raises(ClusterError) as found:
        list(RayEngine().map(square, range(4)))
    assert str(found.value).endswith(
        f"has {package} {versions[package]}, and this process 9.9; install the same version on all nodes"
    )


def test_a_cluster_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ClusterError, match=f"^the Ray cluster {address} cannot be reached: Connection refused; "):
        list(RayEngine(address).map(square, [1]))


@pytest.mark.parametrize(
    "cause",
    [
        "Failed to connect to GCS. Last connection error: RPC error: InvalidAuthToken: Authentication token is missing",
        "Token authentication is enabled but no authentication token was found.",
    ],
)
def test_a_cluster_that_wants_a_token_is_one_sentence(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def init(**_: Any) -> None:
        raise ConnectionError("Failed to connect to Ray cluster at 192.0.2.2:6379") from RuntimeError(cause)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ClusterError, match="cannot be used: it has token authentication; set RAY_AUTH_MODE=token, and"):
        list(RayEngine("auto").map(square, [1]))


def test_a_cluster_that_was_started_separately_is_used_with_its_token(tmp_path: Path) -> None:
    script = "from penstock.runtime.engines.raycluster import RayEngine\n"
    with separate_cluster(tmp_path) as (address, environment):
        script += f"print(sorted(each.get() for each in RayEngine({address!r}).map(abs, range(-3, 0))))"
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout == "[1, 2, 3]\n", done.stderr


def test_a_cluster_of_another_ray_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def init(**_: Any) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.41.0\n    Python: 3.12.1\n")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ClusterError) as found:
        list(RayEngine("auto").map(square, [1]))
    assert "\n" not in str(found.value) and "Ray: 2.41.0 Python: 3.12.1" in str(found.value)
