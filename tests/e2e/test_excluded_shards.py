"""Shards that are excluded whole, seen at the wire: never requested, so that they may be deleted from the store."""

from pathlib import Path

import pytest

import penstock
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, upload
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

GONE = ("hindi-0.tar", "hindi-3.tar")


@pytest.mark.parametrize("indexed", [True, False], ids=["manifest", "filelist"])
def test_a_run_does_not_need_shards_that_it_excludes(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, indexed: bool
) -> None:
    write_shards(tmp_path, {"hindi": [4, 6, 5, 3, 5]}, bytes_each=5_000)
    if indexed:
        upload(s3, tmp_path)
        index(s3, tmp_path)
        for name in GONE:
            s3.put(name, b"gone")
    else:
        for name in GONE:
            (tmp_path / name).unlink()
        upload(s3, tmp_path)
    feed = penstock.open(remote_run(s3, proxy, tmp_path, global_batch_size=2, exclude=[{"items": list(GONE)}]))
    with feed.loader(threads=2) as loader:
        ids = [id for _ in range(30) for id in next(loader)["ids"]]
    feed.close()
    assert {id.split("_")[1] for id in ids} == {"1", "2", "4"}
    asked = [request for method in ("GET", "HEAD") for request in proxy.log(method)]
    assert asked and not [request for request in asked if any(name in str(request) for name in GONE)]
