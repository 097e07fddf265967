"""After the machine went down only what was whole and on the disk is believed."""

from pathlib import Path

from penstock.store.cache.account import CONTROL
from penstock.store.cache.admission import Admission
from penstock.store.cache.cache import drop_unsynced
from penstock.store.cache.entry import CacheEntry
from penstock.store.cache.paths import have_path


def entry_of(folder: Path, name: str) -> CacheEntry:
    (folder / CONTROL).mkdir(exist_ok=True)
    return door(folder).enter(folder / "s3" / f"{name}~1.data", 250, patience=0)


def door(folder: Path) -> Admission:
    return Admission(folder, 10_000, 100, lambda size: None)


def get(start: int, end: int) -> bytes:
    return b"x" * (end - start)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "s3").glob("*.data"))


def test_a_reboot_drops_what_was_not_whole_and_written_out(tmp_path: Path) -> None:
    drop_unsynced(tmp_path, entry_and_door(tmp_path), 100, "boot 1")
    whole, unsynced, partial = (entry_of(tmp_path, name) for name in ("whole", "unsynced", "partial"))
    whole.fetch((0, 3), get)
    whole.sync()
    unsynced.fetch((0, 3), get)
    partial.fetch((0, 1), get)
    markless = entry_of(tmp_path, "markless")
    for entry in (whole, unsynced, partial, markless):
        entry.close()
    Path(have_path(str(markless.path))).unlink()

    drop_unsynced(tmp_path, door(tmp_path), 100, "boot 1")
    assert len(names(tmp_path)) == 4, "the same boot: a mark can be believed"
    drop_unsynced(tmp_path, door(tmp_path), 100, "boot 2")
    assert names(tmp_path) == ["whole~1.data"]
    partial = entry_of(tmp_path, "partial")
    drop_unsynced(tmp_path, door(tmp_path), 100, "boot 2")
    assert names(tmp_path) == ["partial~1.data", "whole~1.data"], "once a boot"
    partial.close()


def entry_and_door(folder: Path) -> Admission:
    (folder / CONTROL).mkdir(exist_ok=True)
    return door(folder)


def test_a_synced_object_is_whole_again_after_a_reboot(tmp_path: Path) -> None:
    entry = entry_of(tmp_path, "whole")
    entry.fetch((0, 3), get)
    assert not entry.synced
    entry.note_checked(5, 9)
    entry.sync()
    entry.look()
    assert entry.synced
    entry.close()
    drop_unsynced(tmp_path, door(tmp_path), 100, "another boot")
    again = entry_of(tmp_path, "whole")
    assert again.complete and again.synced and again.is_checked(5, 9) and not again.is_checked(5, 8)
    again.close()
