"""What was read of shards is kept: nothing is read twice, whoever read it and however it ended."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.manifest.errors import ManifestError
from penstock.readers.tar.index import TarIndexing, index_shards
from penstock.readers.tar.keptshards import contents_bytes, contents_from
from penstock.readers.tar.shardreader import HowToRead, read_shard
from penstock.runtime.engines.engine import JobShare, Outcome, ThreadEngine
from penstock.store.local import LocalStore
from tests.readers.tar.archives import write_tar
from tests.readers.tar.test_index import a_wav, facts

PATHS = [f"en/{number}.tar" for number in range(5)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number, path in enumerate(PATHS):
        files = [(f"clip{number}-{n}.wav", a_wav(0.1 * (n + 1))) for n in range(3)]
        files.append((f"clip{number}-2.json", facts(language="hindi")))
        write_tar(tmp_path / "data" / path, files)
    return tmp_path / "data"


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_by(indexing: TarIndexing) -> list[str]:
    """Make all tasks; return the shards that were read."""
    tasks = indexing.tasks()
    indexing.run(ThreadEngine(2))
    return tasks


class Stopping:
    """An engine that is interrupted after some tasks."""

    def __init__(self, after: int) -> None:
        self.after = after

    def map(self, work: object, tasks: list[str]) -> Iterator[Outcome[str, object]]:
        for task in tasks[: self.after]:
            yield Outcome(task, work(task))  # type: ignore[operator]
        raise KeyboardInterrupt


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize("sha256", [False, True])
def test_what_was_read_comes_back_from_its_bytes(data: Path, described: bool, sha256: bool) -> None:
    write_tar(data / "bad.tar", [("a.json", b"{"), ("b.wav", a_wav(1)), ("b.txt", b"text")])
    for path in ("en/0.tar", "bad.tar"):
        read = read_shard(LocalStore(data), path, HowToRead(described, sha256))
        found = contents_from(memoryview(contents_bytes(read)), path)
        assert contents_bytes(found) == contents_bytes(read)
        assert found.shard == read.shard and found.sha256 == read.sha256 and found.sources == read.sources
        assert list(map(str, found.problems)) == list(map(str, read.problems))


@pytest.mark.parametrize("after", range(6))
def test_an_index_that_was_stopped_anywhere_goes_on(data: Path, tmp_path: Path, after: int) -> None:
    index_shards(LocalStore(data), PATHS, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        TarIndexing(LocalStore(data), PATHS, tmp_path / "out").run(Stopping(after))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
    again = TarIndexing(LocalStore(data), PATHS, tmp_path / "out")
    assert read_by(again) == PATHS[after:]
    again.finish()
    assert content_of(tmp_path / "out") == content_of(tmp_path / "whole")


def test_jobs_in_any_order_make_the_same_bytes(data: Path, tmp_path: Path) -> None:
    index_shards(LocalStore(data), PATHS, tmp_path / "whole")
    for number in (2, 0, 1):
        TarIndexing(LocalStore(data), PATHS, tmp_path / "out").run(ThreadEngine(1), share=JobShare(number, 3))
    last = TarIndexing(LocalStore(data), PATHS, tmp_path / "out")
    assert last.tasks() == []
    last.run(ThreadEngine(1))
    last.finish()
    assert content_of(tmp_path / "out") == content_of(tmp_path / "whole")


def test_only_changed_and_damaged_shards_are_read_again(data: Path, tmp_path: Path) -> None:
    index_shards(LocalStore(data), PATHS, tmp_path / "out")
    write_tar(data / "en" / "1.tar", [("new.wav", a_wav(1))])
    write_tar(data / "en" / "5.tar", [("more.wav", a_wav(1))])
    again = TarIndexing(LocalStore(data), [*PATHS, "en/5.tar"], tmp_path / "out")
    assert read_by(again) == ["en/1.tar", "en/5.tar"]
    assert "new" in again.finish().ids(range(len(again.finish())))
    before = content_of(tmp_path / "out")
    kept = sorted((tmp_path / "out.shards").glob("*.learnt"))
    assert len(kept) == 6, "of other versions nothing is kept"
    kept[0].write_bytes(kept[0].read_bytes()[:-1] + b"!")
    kept[1].unlink()
    damaged = TarIndexing(LocalStore(data), [*PATHS, "en/5.tar"], tmp_path / "out")
    damaged.run(ThreadEngine(1))
    damaged.finish()
    assert content_of(tmp_path / "out") == before


def test_a_job_names_its_broken_shards_and_keeps_the_others(data: Path, tmp_path: Path) -> None:
    (data / PATHS[2]).write_bytes(b"no tar" * 1_000)
    indexing = TarIndexing(LocalStore(data), PATHS, tmp_path / "out")
    with pytest.raises(ManifestError, match=r"en/2.tar"):
        indexing.run(ThreadEngine(1), share=JobShare(0, 2))
    assert TarIndexing(LocalStore(data), PATHS, tmp_path / "out").tasks(JobShare(0, 2)) == [PATHS[2]]


@pytest.mark.parametrize("text", ["", "3", "3/3", "-1/3", "a/b", "1/0", "1/2/3"])
def test_a_share_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write i/n for job i of n"):
        JobShare.parse(text)
