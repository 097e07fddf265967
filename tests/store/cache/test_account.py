"""The account of a cache is never too low: it is rebuilt where it is missing, and a killed process leaves it high."""

import os
import signal
from pathlib import Path

import pytest

from penstock.store.cache.account import CONTROL, admission_lock
from penstock.store.cache.admission import Admission
from penstock.store.cache.cache import NodeCache


def admission(folder: Path, max_bytes: int = 1_000) -> Admission:
    (folder / CONTROL).mkdir(parents=True, exist_ok=True)
    return Admission(folder, max_bytes, 100, lambda _: None)


def enter(door: Admission, folder: Path, name: str, size: int) -> None:
    door.enter(folder / "s3" / f"{name}~1.data", size, 0).close()


def held(door: Admission) -> int:
    return sum(resident.size for resident in door.residents())


def account(folder: Path) -> int | None:
    with admission_lock(folder) as found:
        return found.upper_bound()


def test_it_is_the_sum_while_nothing_fails(tmp_path: Path) -> None:
    door = admission(tmp_path)
    for number in range(30):
        enter(door, tmp_path, str(number), 90)
        assert account(tmp_path) == held(door) <= 1_000


def test_files_are_looked_at_only_when_the_bound_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    door = admission(tmp_path, 10_000)
    walks = []
    walk = Admission.residents
    monkeypatch.setattr(Admission, "residents", lambda self: walks.append(1) or walk(self))
    for number in range(1_000):
        enter(door, tmp_path, str(number), 50)
    assert 1 < len(walks) < 1_000 / 5


@pytest.mark.parametrize("damage", [b"", b"account", b"otherwise, some 16 bytes or more"])
def test_without_a_readable_account_the_files_are_counted(tmp_path: Path, damage: bytes) -> None:
    door = admission(tmp_path)
    for name in "abc":
        enter(door, tmp_path, name, 300)
    (tmp_path / CONTROL / "admission").write_bytes(damage)
    enter(door, tmp_path, "d", 300)
    assert held(door) == account(tmp_path) == 900


def test_who_is_killed_between_the_account_and_the_entry_leaves_it_too_high(tmp_path: Path) -> None:
    door = admission(tmp_path)
    enter(door, tmp_path, "a", 300)
    child = os.fork()
    if child == 0:
        door._create = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]
        enter(door, tmp_path, "b", 600)
    os.waitpid(child, 0)
    assert (account(tmp_path), held(door)) == (900, 300)
    enter(door, tmp_path, "c", 600)
    assert (account(tmp_path), held(door)) == (900, 900)


def test_a_file_that_was_removed_by_hand_costs_room_only_until_the_bound_is_reached(tmp_path: Path) -> None:
    door = admission(tmp_path)
    for name in "abc":
        enter(door, tmp_path, name, 300)
    (tmp_path / "s3" / "b~1.data").unlink()
    enter(door, tmp_path, "d", 300)
    assert sorted(Path(resident.path).name[0] for resident in door.residents()) == ["a", "c", "d"]


def test_after_a_reboot_the_files_are_counted(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 1_000, part_bytes=100)
    enter(cache.admission, cache.root, "a", 300)
    (cache.root / CONTROL / "boot").write_text("an earlier one")
    again = NodeCache(tmp_path / "cache", 1_000)
    assert account(again.root) is None
    enter(again.admission, again.root, "b", 300)
    assert account(again.root) == held(again.admission)
