"""A cache that cannot hold what is resident at once is an error before the first request for data."""

import re
from pathlib import Path

import pytest

import penstock
from penstock.config import ConfigError
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, upload
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

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
