"""A long run is simulated by chunks: about what planning every sample gives."""

from pathlib import Path

import pytest

import penstock
from benchmarks.speech_setting import write_setting
from penstock.feed import Feed
from penstock.observe.simulation.bychunks import ChunkSimulator
from penstock.observe.simulation.bysteps import simulate_steps
from penstock.observe.simulation.curves import group_units
from penstock.observe.simulation.forecast import TOLERANCE, Setting, forecast
from penstock.observe.simulation.node import NodeSimulation
from penstock.store.cache.cache import PART_BYTES, NodeCache

STEPS = 1_200  # of 128 samples: two epochs
BATCH = 128


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("setting")
    write_setting(folder, clips=600, lanes=1, pool=2, shards=120)
    return folder


def opened(folder: Path, world: int) -> Feed:
    own = {"dir": folder / "cache", "size": "1GB"}
    return penstock.open(folder / "run.yaml", rank=0, world=world, cache=own, global_batch_size=BATCH)


def both(folder: Path, nodes: int, cache_bytes: int) -> tuple[NodeSimulation, NodeSimulation]:
    """What the first node does by steps, and by chunks."""
    feed = opened(folder, nodes)
    (folder / "model").mkdir(exist_ok=True)
    cache = NodeCache.as_it_is(folder / "model", cache_bytes, PART_BYTES)
    exact = simulate_steps(feed, cache, range(1), nodes, STEPS, lambda: None)
    return exact, ChunkSimulator(feed, cache, STEPS, nodes, nodes).node(0)


@pytest.mark.scale
@pytest.mark.parametrize("nodes", [1, 2])
def test_chunks_give_the_bytes_requests_and_evictions_of_steps_within_the_tolerance(folder: Path, nodes: int) -> None:
    exact, coarse = both(folder, nodes, opened_bytes(folder) // 3)
    assert exact.counts.evictions > 100
    for name in ("bytes_fetched", "requests", "evictions", "downloads"):
        expected = getattr(exact.counts, name)
        assert abs(getattr(coarse.counts, name) - expected) <= TOLERANCE * expected, name


@pytest.mark.scale
@pytest.mark.parametrize(
    ("pool", "lanes", "nodes", "batch", "reach", "share"),
    [(2, 1, 1, 64, 4, 1 / 2), (3, 1, 1, 96, 64, 2 / 3), (2, 2, 2, 128, 32, 1 / 2)],
)
def test_chunks_agree_with_steps_for_other_pools_lanes_batches_and_reaches(
    tmp_path: Path, pool: int, lanes: int, nodes: int, batch: int, reach: int, share: float
) -> None:
    config = write_setting(tmp_path, clips=150, lanes=lanes, pool=pool, shards=240)
    own = {"dir": tmp_path / "cache", "size": "1GB"}
    options = {"cache": own, "global_batch_size": batch, "prefetch": {"steps": reach}}
    feed = penstock.open(config, rank=0, world=nodes, **options)
    (tmp_path / "model").mkdir()
    cache = NodeCache.as_it_is(tmp_path / "model", int(all_bytes(feed) * share / nodes), PART_BYTES)
    steps = 2 * 240 * 150 // batch
    exact = simulate_steps(feed, cache, range(1), nodes, steps, lambda: None)
    coarse = ChunkSimulator(feed, cache, steps, nodes, nodes).node(0)
    assert exact.counts.evictions > 100
    for name in ("bytes_fetched", "requests", "evictions", "downloads"):
        expected = getattr(exact.counts, name)
        assert abs(getattr(coarse.counts, name) - expected) <= TOLERANCE * expected, name


def opened_bytes(folder: Path) -> int:
    return all_bytes(opened(folder, 1))


def all_bytes(feed: Feed) -> int:
    groups = [(source, group) for source in range(12) for group in range(len(feed.catalog.group_sizes(source)))]
    return sum(size for each in groups for size in group_units(feed.catalog, *each).values())


@pytest.mark.scale
def test_a_run_of_eight_nodes_and_seven_thousand_shards_is_simulated_by_chunks(tmp_path: Path) -> None:
    feed = penstock.open(
        write_setting(tmp_path, clips=400), rank=0, world=64, cache={"dir": tmp_path / "cache", "size": "1GB"}
    )
    found = forecast(feed, Setting(8, 8, 20_000, 0.4, 1.25e9, 500 * 10**9), lambda done, total: None)
    assert found.by == "chunks"
    assert len(found.nodes) == 8
    assert found.total("evictions") > 0
    assert found.least_cache < 500 * 10**9 < found.enough_cache
    assert found.total("bytes_again") < found.total("bytes_fetched")


def test_a_cache_that_cannot_hold_the_resident_groups_is_an_error_that_names_their_size(folder: Path) -> None:
    feed = opened(folder, 1)
    (folder / "small").mkdir()
    cache = NodeCache.as_it_is(folder / "small", 10**9 * 3, PART_BYTES)
    with pytest.raises(ValueError, match=r"resident groups need .* simulate a larger cache"):
        ChunkSimulator(feed, cache, STEPS, 1, 1).node(0)
