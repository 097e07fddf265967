"""A cache that cannot hold what is resident at once is an error before the first request for data."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.config import ConfigError
from penstock.curate.robot.writer import Episode, write_dataset
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, upload
from tests.pipelines.chat_sources import KINDS, records, run_keys
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

pytestmark = pytest.mark.long

SIZES = {"hindi": [9, 9, 9], "odia": [7, 7]}


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("passes", [None, 1])
def test_the_error_says_what_would_be_enough_and_that_is_enough(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, indexed: bool, passes: int | None
) -> None:
    write_shards(tmp_path, SIZES, bytes_each=5_000)
    upload(s3, tmp_path)
    if indexed:
        index(s3, tmp_path)
    large, small = ((tmp_path / f"{name}-0.tar").stat().st_size for name in ("hindi", "odia"))
    resident = 2 * large if passes else 2 * large + 2 * small  # a finite run has one pool over all its sources
    enough = resident + large  # and the one that enters next
    run = remote_run(s3, proxy, tmp_path, size=enough - 1, global_batch_size=4, passes=passes)
    feed = penstock.open(run)
    for start in (feed.loader, lambda: feed.batch(0)):
        with pytest.raises(ConfigError, match=r"cache\.size.*smaller pool than 2") as told:
            start()
        assert [int(n.replace(",", "")) for n in re.findall(r"at least ([\d,]+)", str(told.value))] == [enough]
    assert proxy.log("GET") == []
    run = remote_run(s3, proxy, tmp_path, size=enough, global_batch_size=4, passes=passes)
    feed = penstock.open(run)
    with feed.loader(threads=2) as loader:
        ids = [name for _, batch in zip(range(8), loader, strict=False) for name in batch["ids"]]
    feed.close()
    assert ids == [line.item for step in range(8) for line in feed.lines(step)]


def test_the_error_names_enough_for_shards_that_are_larger_than_the_first(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    write_shards(tmp_path, {"hindi": [3, 30, 20], "odia": [20, 5, 2]}, bytes_each=5_000)
    upload(s3, tmp_path)
    feed = penstock.open(remote_run(s3, proxy, tmp_path, size=1_000, global_batch_size=4))
    with pytest.raises(ConfigError, match=r"cache\.size.*smaller pool than 2") as told:
        feed.loader()
    sizes = {path.stem: path.stat().st_size for path in tmp_path.glob("*.tar")}
    enough = sizes["hindi-1"] * 2 + sizes["hindi-2"] + sizes["odia-0"] + sizes["odia-1"]
    assert f"at least {enough:,}" in str(told.value)
    assert proxy.log("GET") == []


def remote(s3: S3Prefix) -> dict[str, Any]:
    return {"remote": {"endpoint": s3.options.endpoint, "region": s3.options.region}}


def put_chat(name: str, s3: S3Prefix, folder: Path, **options: Any) -> dict[str, Any]:
    for number in range(3):
        s3.put(f"{number}-{name}", KINDS[name](records(40 + 20 * number, word=f"{number}" * 500)))
    source = {"name": "a", "dtype": "conversation", "path": f"{s3.url}/*-{name}", **remote(s3)}
    return run_keys(folder, source, shuffle=True, pool=2, batch_size=16, chat={"max_length": 2_048, **options})


def put_robot(s3: S3Prefix, folder: Path) -> dict[str, Any]:
    draws = np.random.default_rng(0)
    shapes = [(length, 48, 64, 3) for length in (5, 20, 10, 15)]
    episodes = [Episode("t", {"top": draws.integers(0, 255, shape, dtype=np.uint8)}) for shape in shapes]
    write_dataset(folder / "data", episodes, fps=30)
    for path in (folder / "data").rglob("*.*"):
        s3.put(str(path.relative_to(folder / "data")), path.read_bytes())
    return {"recipe": "robot", "store": s3.url, "batch_size": 8, "pool": 2, **remote(s3)}


RUNS: dict[str, Callable[[S3Prefix, Path], dict[str, Any]]] = {
    **{name: lambda s3, folder, name=name: put_chat(name, s3, folder) for name in ("rows.jsonl.gz", "rows.parquet")},
    "packs": lambda s3, folder: put_chat("rows.parquet", s3, folder, pack=True),
    "robot": put_robot,
}


@pytest.mark.parametrize("name", RUNS)
def test_the_first_error_names_a_size_with_which_a_run_goes_on_into_the_next_epoch(
    name: str, s3: S3Prefix, tmp_path: Path
) -> None:
    run = RUNS[name](s3, tmp_path)
    feed = penstock.open(run, cache={"dir": tmp_path / "cache", "size": 1_000})
    with pytest.raises(ConfigError, match=r"cache\.size.*smaller pool than 2") as told:
        feed.loader()
    feed.close()
    [enough] = [int(n.replace(",", "")) for n in re.findall(r"at least ([\d,]+)", str(told.value))]
    feed = penstock.open(run, cache={"dir": tmp_path / "anew", "size": enough})
    steps = 1 + int(feed.catalog.group_sizes(0).sum()) // run["batch_size"]
    with feed.loader(threads=2) as loader:
        assert sum(len(batch["ids"]) for _, batch in zip(range(steps + 2), loader, strict=False)) > 0
    assert {line.epoch for line in feed.lines(steps + 1)} == {1}
    feed.close()
