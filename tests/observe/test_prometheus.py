"""Metrics over HTTP, parsed by prometheus_client's own parsers."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
import weakref
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import penstock
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, upload
from tests.observe.ledgers import opened
from tests.servers.faultproxy import FaultProxy
from tests.shards import small_run, write_shards

Labels = dict[str, str]
DOCUMENTED = Path(__file__).parents[2] / "docs" / "looking.md"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

RANK = """
import sys
import penstock
feed = penstock.open(sys.argv[1])
with feed.loader() as loader:
    for _ in range(int(sys.argv[2]) + feed.rank):
        next(loader)
    print(feed.rank, flush=True)
    sys.stdin.readline()
"""


def free_ports(count: int) -> int:
    """Return the first of some consecutive ports that nobody listens on."""
    for first in range(20_000 + os.getpid() % 10_000, 60_000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise RuntimeError("no free ports")


def scrape(port: int, accept: str = OPENMETRICS) -> dict[str, list[tuple[Labels, float]]]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
        assert answer.headers["Content-Type"].startswith(accept.split(";")[0])
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in parse_openmetrics(text) if accept == OPENMETRICS else parse_text(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def total(samples: list[tuple[Labels, float]]) -> float:
    return sum(value for _, value in samples)


@pytest.mark.parametrize("accept", [OPENMETRICS, "text/plain"])
def test_metrics_are_what_the_trainer_received(damaged: Path, accept: str) -> None:
    port = free_ports(1)
    feed = opened(damaged, global_batch_size=9, metrics={"port": port})
    with feed.loader(threads=2) as loader:
        batches = [next(loader) for _ in range(20)]
        found = scrape(port, accept)
    feed.close()
    by_source = {labels["source"]: value for labels, value in found["penstock_samples_total"]}
    sources = [source for batch in batches for source in batch["sources"]]
    assert by_source == {name: sources.count(name) for name in set(sources)}
    assert total(found["penstock_bad_samples_total"]) == sum(len(batch["bad"]) for batch in batches) > 0
    assert found["penstock_next_step"] == [({"rank": "0"}, 20)]
    assert total(found["penstock_wait_seconds_count"]) == 20
    assert total(found["penstock_wait_seconds_sum"]) == pytest.approx(loader.waited)
    assert found["penstock_run_info"] == [({"rank": "0", "world": "1"}, 1)]
    with pytest.raises(OSError):
        scrape(port)


def test_every_local_rank_has_its_own_port(tmp_path: Path) -> None:
    write_shards(tmp_path)
    port = free_ports(2)
    config = tmp_path / "run.yaml"
    keys: dict[str, Any] = {**small_run(tmp_path), "global_batch_size": 4, "metrics": {"port": port}}
    config.write_text(json.dumps(keys, default=str))
    command = [sys.executable, "-c", RANK, str(config), "5"]
    ranks = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "RANK": str(2 + local), "WORLD_SIZE": "4", "LOCAL_RANK": str(local)},
        )
        for local in range(2)
    ]
    try:
        for rank in ranks:
            assert rank.stdout is not None and rank.stdout.readline()
        for local in range(2):
            found = scrape(port + local)
            assert found["penstock_next_step"] == [({"rank": str(2 + local)}, 7 + local)]
            assert total(found["penstock_samples_total"]) == 7 + local
    finally:
        for rank in ranks:
            rank.communicate(b"\n", timeout=60)
    assert [rank.returncode for rank in ranks] == [0, 0]


def test_the_node_cache_is_counted_and_names_are_documented(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    write_shards(tmp_path)
    upload(s3, tmp_path)
    index(s3, tmp_path)
    port = free_ports(1)
    feed = penstock.open(remote_run(s3, proxy, tmp_path), batch_size=4, metrics={"port": port}, rank=0, world=1)
    with feed.loader() as loader:
        for _ in range(10):
            next(loader)
        found = scrape(port)
        counts = feed.cache_counts()
    feed.close()
    assert 0 < total(found["penstock_cache_downloaded_bytes_total"]) <= counts["bytes_fetched"]
    assert total(found["penstock_cache_limit_bytes"]) == 10**9 >= total(found["penstock_cache_bytes"]) > 0
    served = {re.sub("(?<=wait_seconds)_(bucket|count|sum)$", "", name) for name in found}
    assert served == set(re.findall("`(penstock_[a-z_]+)`", DOCUMENTED.read_text()))


def test_a_port_in_use_costs_a_warning_and_no_batch(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        feed = opened(damaged, batch_size=4, metrics={"port": port})
        with feed.loader() as loader:
            assert next(loader)["step"] == 0
    assert f"no metrics of rank 0 on 127.0.0.1:{port}: " in caplog.text


def test_a_port_is_free_again_when_its_feed_is_gone_and_after_a_fork(damaged: Path) -> None:
    port = free_ports(1)
    for _ in range(2):
        feed = opened(damaged, batch_size=4, metrics={"port": port})
        with feed.loader() as loader:
            next(loader)
            child = os.fork()
            if not child:
                feed.close()
                del feed
                os._exit(0)
            os.waitpid(child, 0)
            assert total(scrape(port)["penstock_samples_total"]) == 4
        gone = weakref.ref(feed)
        del feed, loader
        assert gone() is None, "freed at once, without a garbage collection"


def test_only_the_loopback_is_listened_on(damaged: Path) -> None:
    port = free_ports(1)
    feed = opened(damaged, batch_size=4, metrics={"port": port})
    with feed.loader():
        listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        addresses = [line.split()[1] for line in listening.splitlines() if line.split()[3] == "0A"]
        assert [address for address in addresses if address.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
    feed.close()
