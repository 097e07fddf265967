"""Simulation against counts: what ``penstock simulate`` predicts, and what a bucket was asked for."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import penstock
from penstock.feed.steps import Steps
from penstock.observe.simulation.forecast import (
    PIECES_TOLERANCE,
    TOLERANCE,
    Forecast,
    Setting,
    between,
    forecast,
)
from penstock.store.cache.cache import NodeCache
from tests.cli.commands import run
from tests.clips import write_clips
from tests.conftest import S3Prefix
from tests.e2e import robots as robots_in_bucket
from tests.e2e.bucket import PART, index, remote_run, upload
from tests.e2e.chat_golden import MEDIA, NAMED
from tests.e2e.chat_run import chat_run, copy_files, source
from tests.e2e.lockstep import Figures, Node, compare, opened_cache, predicted_of
from tests.e2e.robots import Robots, robot_run, through
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards
from tests.text.formats.test_demo_files import DATA

pytestmark = pytest.mark.scale

SIZES = {"hindi": [50] * 40, "odia": [42] * 48, "assamese": [30] * 3}  # assamese is too small to be split
CLIP_BYTES = 3_000
BATCH = 96
CLIPS = {"hindi": [8] * 40, "odia": [6] * 30}
TWO_EPOCHS = 2 * sum(map(sum, SIZES.values())) // BATCH
CHAT_FILES = 48
CONVERSATIONS = 75  # per file
CHAT_STEPS = 2 * CHAT_FILES * CONVERSATIONS // 32
THIRD = 1 / 3

# Nodes and ranks per node.
PLACES = [(1, 1), (2, 1), (1, 2)]


def data_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.tar"))


@pytest.fixture
def shards(s3: S3Prefix, tmp_path: Path) -> Path:
    write_shards(tmp_path, SIZES, bytes_each=CLIP_BYTES)
    upload(s3, tmp_path)
    index(s3, tmp_path)
    return tmp_path


def compare_nodes(
    options: Callable[[int], dict[str, Any]], steps: int, nodes: int, gpus: int
) -> list[tuple[Figures, Figures]]:
    """Return what was predicted and what was counted for each node; ``options`` are those of one node."""
    world = nodes * gpus
    return [compare(options(node), steps, range(node * gpus, (node + 1) * gpus), world) for node in range(nodes)]


def own_cache(folder: Path, node: int, size: int, part: int = PART) -> dict[str, Any]:
    NodeCache(folder / f"node-{node}", size, part_bytes=part).close()
    return {"dir": str(folder / f"node-{node}"), "size": size}


@pytest.mark.parametrize(
    ("nodes", "gpus", "share", "indexed"),
    [
        (1, 1, 2, True),
        (1, 1, THIRD, True),
        (2, 1, THIRD, True),
        (2, 1, THIRD, False),
        (2, 2, THIRD, True),
        (1, 1, 1 / 8, True),
        (1, 1, 1 / 12, True),
    ],
)
def test_in_lockstep_a_run_over_tar_shards_does_exactly_what_was_predicted(
    s3: S3Prefix, proxy: FaultProxy, shards: Path, nodes: int, gpus: int, share: float, indexed: bool
) -> None:
    if not indexed:
        (shards / "index").rename(shards / "no-index")
    size = int(data_bytes(shards) * share / nodes)
    options = {"lanes": nodes, "pool": 2, "global_batch_size": BATCH, "prefetch": {"steps": 8, "concurrency": 0}}
    world = nodes * gpus
    for number in range(nodes):
        run = remote_run(s3, proxy, shards, cache=f"node-{number}", size=size, **options)
        node = Node(run, range(number * gpus, (number + 1) * gpus), world)
        predicted = node.predict(TWO_EPOCHS)
        proxy.clear()
        assert predicted_of(predicted) == node.run(TWO_EPOCHS)
        assert len(proxy.log("GET")) == predicted.counts.requests
        assert (predicted.counts.evictions > 0) == (share < 1)
        assert (predicted.counts.space_requests > 0) == (share <= 1 / 8)
        node.close()


@pytest.mark.parametrize(("nodes", "gpus"), PLACES)
def test_in_lockstep_a_speech_run_does_exactly_what_was_predicted(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, nodes: int, gpus: int
) -> None:
    write_clips(tmp_path, CLIPS)
    upload(s3, tmp_path)
    index(s3, tmp_path)
    size = int(data_bytes(tmp_path) * THIRD / nodes)
    speech = {"recipe": "speech", "speech": {"crop": 1.0, "features": False}, "mixture": {"weights": "hours"}}
    options = {**speech, "pool": 2, "lanes": nodes, "global_batch_size": 32, "prefetch": {"steps": 4, "concurrency": 0}}
    steps = 2 * sum(map(sum, CLIPS.values())) // 32
    found = compare_nodes(
        lambda node: remote_run(s3, proxy, tmp_path, cache=f"node-{node}", size=size, part=1 << 14, **options),
        steps,
        nodes,
        gpus,
    )
    for predicted, counted in found:
        assert predicted == counted
        assert predicted["evictions"]


@pytest.mark.parametrize(("nodes", "gpus", "pack"), [(1, 1, False), (2, 1, True), (1, 2, False)])
def test_in_lockstep_a_chat_run_over_jsonl_does_exactly_what_was_predicted(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, nodes: int, gpus: int, pack: bool
) -> None:
    total = put_conversations(s3, tmp_path, as_jsonl)
    found = compare_nodes(
        lambda node: text_run(s3, proxy, tmp_path, node, nodes, int(total * THIRD / nodes), pack),
        CHAT_STEPS,
        nodes,
        gpus,
    )
    for predicted, counted in found:
        assert predicted == counted
        assert predicted["evictions"]


@pytest.mark.parametrize(("nodes", "gpus", "pack"), [(1, 1, True), (2, 1, False)])
def test_in_lockstep_a_chat_run_over_parquet_asks_for_what_was_predicted_and_evicts_about_as_much(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, nodes: int, gpus: int, pack: bool
) -> None:
    total = put_conversations(s3, tmp_path, as_parquet)
    found = compare_nodes(
        lambda node: text_run(s3, proxy, tmp_path, node, nodes, int(total * THIRD / nodes), pack),
        CHAT_STEPS,
        nodes,
        gpus,
    )
    for predicted, counted in found:
        for name in ("requests", "bytes", "evictions"):
            assert abs(predicted[name] - counted[name]) <= PIECES_TOLERANCE * counted[name], (name, predicted, counted)
        assert predicted["evictions"]


@pytest.mark.parametrize(("nodes", "gpus"), PLACES)
def test_in_lockstep_a_robot_run_over_indexed_videos_does_exactly_what_was_predicted(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, robots_with: Callable[[str], Robots], nodes: int, gpus: int
) -> None:
    robots = robots_with("at the end")
    robots_in_bucket.upload(s3, robots)
    size = int(sum(robots.sizes.values()) * THIRD / nodes)

    def options(node: int) -> dict[str, Any]:
        found = run_of_robots(s3, proxy, tmp_path, size, lanes=nodes, cache=own_cache(tmp_path, node, size))
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(found))
        assert run("index", tmp_path / "run.yaml").exit_code == 0
        return found

    for predicted, counted in compare_nodes(options, 240, nodes, gpus):
        assert predicted == counted
        assert predicted["evictions"]


def run_of_robots(s3: S3Prefix, proxy: FaultProxy, folder: Path, size: int, **options: Any) -> dict[str, Any]:
    prefetch = {"steps": 4, "concurrency": 0}
    return robot_run(folder, s3.url, remote=through(proxy), size=size, pool=6, prefetch=prefetch, **options)


def forecast_of(options: dict[str, Any], steps: int, cache: int, nodes: int = 1) -> Forecast:
    feed = penstock.open(options, rank=0, world=nodes)
    try:
        return forecast(feed, Setting(nodes, 1, steps, 1.0, 1e9, cache), lambda *_: None)
    finally:
        feed.close()


def test_videos_that_no_run_has_read_make_the_forecast_a_least_figure_with_a_note(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, robots_with: Callable[[str], Robots]
) -> None:
    robots_in_bucket.upload(s3, robots_with("at the end"))
    found = forecast_of(run_of_robots(s3, proxy, tmp_path, 10**9), 20, 10**9)
    assert found.tolerance is None
    assert "penstock index" in found.notes[0]


def test_media_that_records_name_make_the_forecast_a_least_figure_with_a_note(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    copy_files(tmp_path)
    name = "mllm_demo.json"
    s3.put(name, (DATA / name).read_bytes())
    for file in MEDIA.iterdir():
        s3.put(f"{NAMED}/{file.name}", file.read_bytes())
    options = chat_run(tmp_path, [source(name, s3.url, remote=through(proxy))], mixture={"weights": "equal"})
    found = forecast_of(options, 2, 10**9)
    assert found.tolerance is None
    assert "image files that records name" in found.notes[0]


def test_pieces_made_in_the_cache_widen_the_interval_with_a_note(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    put_conversations(s3, tmp_path, as_parquet)
    found = forecast_of(text_run(s3, proxy, tmp_path, 0, 1, 10**9, pack=False), 20, 10**9)
    assert found.tolerance == PIECES_TOLERANCE
    assert "sizes are estimated" in found.notes[0]


def test_a_cache_near_the_working_set_is_named_with_the_size_from_which_the_forecast_holds(
    s3: S3Prefix, proxy: FaultProxy, shards: Path
) -> None:
    options = remote_run(s3, proxy, shards, pool=2, global_batch_size=BATCH, prefetch={"steps": 8, "concurrency": 4})
    small = forecast_of(options, TWO_EPOCHS, data_bytes(shards) // 8)
    assert small.tolerance is None
    [note] = small.notes
    assert "no room to fetch ahead" in note
    enough = int(note.partition("a cache of ")[2].partition(" bytes")[0].replace(",", ""))
    assert enough > data_bytes(shards) // 8
    assert forecast_of(options, TWO_EPOCHS, enough).notes == ()


@pytest.mark.parametrize(
    ("nodes", "share", "threads"), [(1, 2, 0), (1, 2, 2), (1, THIRD, 2), (2, 2, 0), (2, THIRD, 0), (2, THIRD, 2)]
)
def test_an_ordinary_run_stays_in_the_interval_and_downloads_the_same_bytes_if_nothing_is_evicted(
    s3: S3Prefix, proxy: FaultProxy, shards: Path, nodes: int, share: float, threads: int
) -> None:
    size = int(data_bytes(shards) * share / nodes)
    options = {"pool": 2, "lanes": nodes, "global_batch_size": BATCH, "prefetch": {"steps": 8, "concurrency": 4}}
    predicted = forecast_of(remote_run(s3, proxy, shards, size=size, **options), TWO_EPOCHS, size, nodes)
    assert predicted.tolerance == TOLERANCE, predicted.notes
    for node in range(nodes):
        run = remote_run(s3, proxy, shards, cache=f"node-{node}", size=size, **options)
        feed = penstock.open(run, rank=node, world=nodes)
        found = ordinary(feed, TWO_EPOCHS, threads)
        feed.close()
        expected = predicted_of(predicted.nodes[node])
        if not expected["evictions"]:
            assert found["bytes"] == expected["bytes"]
        for name in ("requests", "evictions"):
            low, high = between(expected[name], TOLERANCE)
            assert high is not None and low <= found[name] <= high, (name, found, expected)


def ordinary(feed: penstock.Feed, steps: int, threads: int) -> Figures:
    """Make all batches as a training run does. Returns what the cache counted."""
    if threads:
        with feed.loader(threads=threads) as loader:
            for step, _ in enumerate(loader, start=1):
                if step == steps:
                    break
            counts = opened_cache(feed).counters.mine()
    else:
        with feed.walk(Steps(0, steps)) as walk:
            for step in range(steps):
                walk.batch(step)
            counts = opened_cache(feed).counters.mine()
    return {"requests": counts.requests, "bytes": counts.bytes_fetched, "evictions": counts.evictions}


def text_run(
    s3: S3Prefix, proxy: FaultProxy, folder: Path, node: int, nodes: int, size: int, pack: bool
) -> dict[str, Any]:
    """Return the options of a chat run over ``put_conversations``, with a cache for one node."""
    where = {"dtype": "conversation", "path": f"{s3.url}/text/*", "remote": through(proxy)}
    return chat_run(
        folder,
        [{"name": "text", **where}],
        global_batch_size=4 if pack else 32,
        pool=2,
        lanes=nodes,
        prefetch={"steps": 4, "concurrency": 0},
        cache=own_cache(folder, node, size),
        mixture={"weights": "equal"},
        chat={"pack": pack, "max_length": 4_096},
    )


def put_conversations(s3: S3Prefix, folder: Path, written: Callable[[list[dict[str, Any]]], tuple[str, bytes]]) -> int:
    """Put files of conversations into the bucket, and a tokenizer into the folder. Returns the size of all files."""
    copy_files(folder)
    total = 0
    for file in range(CHAT_FILES):
        extension, data = written([conversation(file, number) for number in range(CONVERSATIONS)])
        s3.put(f"text/file-{file:02d}.{extension}", data)
        total += len(data)
    return total


def conversation(file: int, number: int) -> dict[str, Any]:
    said = [("user", f"question {file} {number} " + "x" * 200), ("assistant", "a" * (50 + 37 * number % 300))]
    return {"messages": [{"role": role, "content": content} for role, content in said]}


def as_jsonl(records: list[dict[str, Any]]) -> tuple[str, bytes]:
    return "jsonl", "".join(json.dumps(record) + "\n" for record in records).encode()


def as_parquet(records: list[dict[str, Any]]) -> tuple[str, bytes]:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), sink, row_group_size=25, compression="none")
    return "parquet", sink.getvalue()
