import logging
import os
import pickle
from pathlib import Path

import pytest

from penstock.store.fileversions import FileVersions
from penstock.store.local import LocalBlob, LocalStore
from tests.same_stat import overwrite_keeping_stat


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "rows"
    path.parent.mkdir()
    path.write_bytes(b"one" * 100_000)
    (tmp_path / "notes").mkdir()
    return path


def version(file: Path) -> str:
    """The version of the file in a new process."""
    return LocalStore(file.parent, file.parents[1] / "notes").version(file.name)


def keep(file: Path) -> None:
    LocalStore(file.parent, file.parents[1] / "notes").file_versions.keep(file.name, LocalBlob(file))


def test_a_file_made_anew_with_the_same_inode_size_and_mtime_has_another_version(file: Path) -> None:
    before = version(file)
    overwrite_keeping_stat(file, b"two" * 100_000)
    assert version(file) != before


def test_a_kept_digest_tells_a_file_made_anew_from_one_whose_permissions_changed(file: Path) -> None:
    before = version(file)
    keep(file)
    file.chmod(0o600)
    assert version(file) == before
    os.link(file, file.with_name("link"))
    assert version(file) == before
    overwrite_keeping_stat(file, b"one" * 99_999 + b"two")
    assert version(file) != before


def test_without_a_digest_a_new_ctime_is_a_new_version(file: Path) -> None:
    before = version(file)
    file.chmod(0o600)
    assert version(file) != before


def test_a_file_is_compared_once_per_change(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(file)
    file.chmod(0o600)
    with caplog.at_level(logging.WARNING, "penstock.index"):
        version(file)
        version(file)
    [line] = caplog.messages
    assert line.startswith("rows in ") and "perhaps only its permissions or links" in line


def test_a_file_is_not_read_while_its_ctime_is_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = version(file)
    keep(file)
    monkeypatch.setattr(LocalBlob, "digest", lambda _: pytest.fail("the file was read"))
    assert version(file) == before
    keep(file)


def test_in_a_process_the_version_outlasts_a_chmod(file: Path) -> None:
    store = LocalStore(file.parent)
    before = store.version(file.name)
    file.chmod(0o600)
    assert store.version(file.name) == before
    file.write_bytes(b"another")
    assert store.version(file.name) != before


def test_what_changed_while_it_was_learnt_gets_no_digest(file: Path) -> None:
    store = LocalStore(file.parent, file.parents[1] / "notes")
    store.version(file.name)
    overwrite_keeping_stat(file, b"two" * 100_000)
    store.file_versions.keep(file.name, LocalBlob(file))
    file.chmod(0o600)
    assert version(file) == LocalBlob(file).stamp


def test_a_digest_of_a_file_that_is_written_to_meanwhile_is_none(file: Path) -> None:
    blob = LocalBlob(file)
    overwrite_keeping_stat(file, b"two" * 100_000)
    assert blob.digest() is None


def test_lines_that_were_cut_or_damaged_are_ignored(file: Path) -> None:
    before = version(file)
    keep(file)
    [notes] = (file.parents[1] / "notes").iterdir()
    whole = notes.read_bytes()
    for damaged in (whole.rstrip()[:-5], b'["rows"]\n[1, 2, 3, 4, 5, 6]\n7\n{}', b"\xff\xfe"):
        notes.write_bytes(damaged)
        assert version(file) == before
        keep(file)
    file.chmod(0o600)
    assert version(file) == before


def test_notes_that_cannot_be_written_are_done_without(file: Path) -> None:
    versions = FileVersions(file, "a file is no folder")
    versions.keep(file.name, LocalBlob(file))
    assert pickle.loads(pickle.dumps(versions)).get(file.name, LocalBlob(file)) == LocalBlob(file).stamp
