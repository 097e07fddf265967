"""Batches by length from a bucket: the cache holds what windows need, and nothing is fetched twice in an epoch."""

import re
from collections import Counter
from pathlib import Path

import pytest

import penstock
from penstock.config import ConfigError
from tests.clips import clip_run, write_clips
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, requested_parts, upload
from tests.servers.faultproxy import FaultProxy

SHARDS = {"hindi": [12] * 9, "odia": [12] * 9}
BATCH = {"seconds": 12, "units": 2, "window": 24}


@pytest.mark.long
def test_a_cache_as_large_as_asked_for_fetches_no_part_twice_in_an_epoch(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    write_clips(tmp_path, SHARDS, rate=2_000)
    upload(s3, tmp_path)
    index(s3, tmp_path)
    speech = {key: clip_run(tmp_path)[key] for key in ("recipe", "speech")}
    own = {**speech, "batch": BATCH, "prefetch": {"steps": 3, "concurrency": 4}}
    with pytest.raises(ConfigError, match=r"cache\.size") as refused:
        penstock.open(remote_run(s3, proxy, tmp_path, cache="small", size=100_000, **own)).open_stores()
    enough = max(int(number.replace(",", "")) for number in re.findall(r"[\d,]{5,}", str(refused.value)))
    shards = [path.stat().st_size for path in tmp_path.glob("*.tar")]
    assert enough < sum(shards), "so that something must be evicted"
    feed = penstock.open(remote_run(s3, proxy, tmp_path, size=enough, **own))
    local = penstock.open(clip_run(tmp_path, batch=BATCH))
    epoch = sum(map(sum, SHARDS.values()))
    steps = feed.timeline(1).window(0).steps * epoch // BATCH["window"]
    with feed.loader(threads=2) as loader:
        while loader.step < steps:
            batch = next(loader)
            again = local.batch(batch["step"], unit=batch["unit"])
            assert batch["ids"] == again["ids"] and batch["wav"].equal(again["wav"])
    asked = Counter(requested_parts(s3, proxy.log("GET")))
    repeated = [part for part, count in asked.items() if count > 1]
    assert repeated == []
