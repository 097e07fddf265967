"""What a batch is to hold does not depend on which other batches were looked up with it."""

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.feed.lookup import Lookup
from penstock.plan.timeline import Timeline
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.reader import TarSource
from penstock.store.local import LocalStore
from tests.shards import small_run, write_shards


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    shards = [path.name for path in sorted(folder.glob("*.tar"))]
    index_shards(LocalStore(folder), shards, folder / "manifest", filelist=folder / "train.tsv")
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    if "manifest" in options:
        options["filelist"] = None
    return penstock.open(small_run(folder, batch_size=6, **options))


class Asked(TarSource):
    """Notes how many samples are looked up at a time."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.store, feed.manifest)
        self.counts = list[int]()

    def look_up(self, rows: Any, files: Any = None) -> Any:
        self.counts.append(len(rows))
        return super().look_up(rows, files)


def looked_up(feed: Feed, steps: list[int], rank: int = 0, world: int = 1) -> tuple[list[Any], list[int]]:
    source = Asked(feed)
    lookup = Lookup(feed.plan, feed.manifest, source, None, feed.config.seed)
    found = [lookup.batch(step, rank, world, feed.timeline(world)) for step in steps]
    return [(looked.slots.tolist(), looked.samples) for looked in found], source.counts


def alone(feed: Feed, step: int, rank: int = 0, world: int = 1) -> Any:
    return looked_up(feed, [step], rank, world)[0][0]


@pytest.mark.parametrize("steps", [range(50), range(49, 0, -1), range(3, 200, 7), [5, 5, 900, 4, 6, 0, 901]])
@pytest.mark.parametrize("options", [{}, {"passes": 2}, {"lanes": 2}], ids=str)
def test_in_any_order_as_each_alone(folder: Path, steps: Any, options: dict[str, Any]) -> None:
    feed = opened(folder, manifest=folder / "manifest", **options)
    asked = [step for step in steps if "passes" not in options or step < len(feed)]
    found, _ = looked_up(feed, asked)
    assert found == [alone(feed, step) for step in asked]


def test_ranks_and_batch_sizes_are_told_apart(folder: Path) -> None:
    feed = opened(folder, manifest=folder / "manifest")
    source = TarSource(feed.store, feed.manifest)
    lookup = Lookup(feed.plan, feed.manifest, source, None, feed.config.seed)
    for step in range(10):
        for rank, world in ((0, 1), (0, 2), (1, 2), (0, 3)):
            looked = lookup.batch(step, rank, world, feed.timeline(world))
            assert (looked.slots.tolist(), looked.samples) == alone(feed, step, rank, world)


@pytest.mark.parametrize("stride", [1, 2, 8])
def test_steps_are_looked_up_as_they_are_asked_for(folder: Path, stride: int) -> None:
    feed = opened(folder, manifest=folder / "manifest")
    _, counts = looked_up(feed, list(range(0, 400 * stride, stride)))
    assert len(counts) < 400 / 15, "a worker that is asked for every eighth step looks up no others"
    assert sum(counts) < 1.1 * 400 * 6


def test_no_step_behind_the_end_is_looked_up_and_none_is_there(folder: Path) -> None:
    feed = opened(folder, manifest=folder / "manifest", passes=10)
    found, counts = looked_up(feed, [0, len(feed) - 2, len(feed) - 1])
    assert sum(counts[1:]) == sum(len(samples) for _, samples in found[1:])
    with pytest.raises(IndexError, match=f"step {len(feed)}: the run has {len(feed)} steps"):
        looked_up(feed, [len(feed)])


def test_without_an_index_shards_are_not_scanned_for_later_steps(folder: Path) -> None:
    _, counts = looked_up(opened(folder), list(range(10)))
    assert counts == [6] * 10


def test_a_change_of_the_batch_size_is_not_looked_over(folder: Path) -> None:
    feed = opened(folder, manifest=folder / "manifest")
    timeline = Timeline.constant(6).changed(10, 7)  # three ranks can share 6 samples, not 7
    lookup = Lookup(feed.plan, feed.manifest, TarSource(feed.store, feed.manifest), None, feed.config.seed)
    rows = [len(lookup.batch(step, 1, 3, timeline).samples) for step in range(10)]
    assert rows == [2] * 10
    with pytest.raises(ValueError, match="a global batch of 7 does not divide over 3 ranks"):
        lookup.batch(10, 1, 3, timeline)


def test_steps_in_no_order_are_looked_up_alone(folder: Path) -> None:
    _, counts = looked_up(opened(folder, manifest=folder / "manifest"), [900, 100_000, 7, 20_000, 3_000])
    assert counts == [6] * 5
