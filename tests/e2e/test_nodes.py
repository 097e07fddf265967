"""Two nodes, each a process with a cache of its own: with a lane a node no byte is downloaded by both."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import penstock
from tests.conftest import S3Prefix
from tests.e2e.bucket import PART, index, remote_run, requested_parts, upload
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

pytestmark = pytest.mark.long

SIZES = {"hindi": [180] * 12, "odia": [90] * 23, "assamese": [30] * 3}  # assamese is too small to be split
STEPS, EPOCHS = 330, 3
NODE = """
import json, sys, penstock
options, rank, steps = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
feed = penstock.open(options, rank=rank, world=2)
for step in range(steps): feed[step]
feed.close()
"""


@pytest.mark.parametrize("indexed", [True, False])
def test_no_byte_is_downloaded_by_two_nodes_over_several_epochs(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, indexed: bool
) -> None:
    write_shards(tmp_path, SIZES)
    upload(s3, tmp_path)
    if indexed:
        index(s3, tmp_path)
    with FaultProxy(s3.server.url) as second:
        wires, nodes = (proxy, second), []
        for rank, wire in enumerate(wires):
            run = remote_run(s3, wire, tmp_path, cache=f"node-{rank}", lanes=2, pool=4, global_batch_size=60)
            command = [sys.executable, "-c", NODE, json.dumps(run, default=str), str(rank), str(STEPS)]
            nodes.append(subprocess.Popen(command))
        assert [node.wait(timeout=200) for node in nodes] == [0, 0]
        parts = [Counter(requested_parts(s3, wire.log("GET"))) for wire in wires]
    lines = [line for rank in range(2) for line in penstock.open(run).lines(STEPS - 1, rank, 2)]
    assert all(line.epoch >= EPOCHS - 1 for line in lines)
    assert {count for each in parts for count in each.values()} == {1}, "no node asks twice for what it has"
    assert {shard for each in parts for shard, _ in each} == {path.name for path in tmp_path.glob("*.tar")}
    for source in ("hindi", "odia"):
        mine, theirs = ({part for part in each if part[0].startswith(source)} for each in parts)
        both = mine & theirs
        assert len({shard for shard, _ in both}) <= 1, "one border between two lanes"
        assert not indexed or len(both) <= 1, "by the index no more than the part with the border in it"
        assert abs(len(mine) - len(theirs)) <= max(SIZES[source]) * 1_024 // PART + 1, "and each has its half"
