"""The last steps of a run, from the ends of its ledgers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import penstock
from penstock.feed import Feed
from penstock.observe.live import LedgerTail, LiveRun
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, upload
from tests.observe.ledgers import Line, opened
from tests.observe.trained import train, trained
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards


@pytest.fixture(scope="module")
def run(damaged: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Feed, list[str]]:
    log = tmp_path_factory.mktemp("live") / "usage.jsonl"
    feed = trained(damaged, log)
    return feed, log.read_text().splitlines(keepends=True)


def test_figures_are_those_of_the_ledger(run: tuple[Feed, list[str]], tmp_path: Path) -> None:
    feed, texts = run
    log = tmp_path / "usage.jsonl"
    log.write_text("".join(texts))
    live = LiveRun([log], feed)
    live.update()
    now = live.now()
    assert now is not None
    lines: list[Line] = [line for line in map(json.loads, texts) if "kind" not in line]
    [rank] = now.ranks
    assert (now.first_step, now.next_step, now.world, rank.rank) == (0, 40, 1, 0)
    assert now.samples == sum(line["samples"] for line in lines) == 360
    for source in now.sources:
        count = sum(line["sources"].get(source.name, 0) for line in lines)
        assert source.share == pytest.approx(count / 360)
        assert source.quota == pytest.approx(1 / 3) and source.loss is not None
        assert abs(source.share - source.quota) * 360 < 1
    assert now.reasons.total() == sum(len(line["bad"]) for line in lines) > 0
    stalls = [wait for line in lines for wait in line["stalls"]]
    assert rank.waits == pytest.approx(np.percentile(stalls, (50, 95, 99)).tolist())
    seconds = lines[-1]["time"] - lines[0]["time"]
    assert rank.samples_per_second == pytest.approx(270 / seconds)
    assert now.loss is not None and now.grad_norm is not None and 0.9 < now.loss < 2


def test_only_what_was_appended_is_read_again(run: tuple[Feed, list[str]], tmp_path: Path) -> None:
    _, texts = run
    log = tmp_path / "usage.jsonl"
    tail = LedgerTail(log)
    assert list(tail.read()) == []
    whole = "".join(texts[:3])
    log.write_text(whole + texts[3][:50])
    assert len(list(tail.read())) == 3
    assert list(tail.read()) == []
    with log.open("a") as file:
        file.write(texts[3][50:] + "not json\n" + texts[4])
    assert len(list(tail.read())) == 2
    log.write_text(texts[0])  # the run was begun again with a new ledger
    assert len(list(tail.read())) == 1


def test_a_resumed_run_replaces_the_lines_of_the_process_before(run: tuple[Feed, list[str]], tmp_path: Path) -> None:
    _, texts = run
    log = tmp_path / "usage.jsonl"
    lines: list[Line] = [line for line in map(json.loads, texts) if "kind" not in line]
    again = {**lines[1], "pid": 7}
    log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, again]))
    live = LiveRun([log])
    live.update()
    now = live.now()
    assert now is not None
    assert (now.first_step, now.next_step) == (10, 20)
    assert now.samples == again["samples"]


def test_several_ledgers_are_one_run(run: tuple[Feed, list[str]], tmp_path: Path) -> None:
    _, texts = run
    lines: list[Line] = [line for line in map(json.loads, texts) if "kind" not in line]
    for rank in range(2):
        own = [{**line, "world": 2, "rank": rank, "host": f"node{rank}"} for line in lines[: 2 + rank]]
        (tmp_path / f"{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in own))
    live = LiveRun([tmp_path / "0.jsonl", tmp_path / "1.jsonl"])
    live.update()
    now = live.now()
    assert now is not None
    assert [(rank.rank, rank.host, rank.next_step) for rank in now.ranks] == [(0, "node0", 20), (1, "node1", 30)]


def test_ledgers_of_a_run_that_went_on_with_other_ranks_show_all_of_its_nodes(
    run: tuple[Feed, list[str]], tmp_path: Path
) -> None:
    _, texts = run
    lines: list[Line] = [line for line in map(json.loads, texts) if "kind" not in line]
    for node in range(2):
        before = {**lines[0], "world": 2, "rank": node}
        after = [{**lines[1], "world": 4, "rank": rank, "pid": rank} for rank in (2 * node, 2 * node + 1)]
        own = [{**line, "host": f"node{node}"} for line in (before, *after)]
        (tmp_path / f"{node}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in own))
    live = LiveRun([tmp_path / "0.jsonl", tmp_path / "1.jsonl"])
    live.update()
    now = live.now()
    assert now is not None
    assert [(rank.rank, rank.host) for rank in now.ranks] == [(0, "node0"), (1, "node0"), (2, "node1"), (3, "node1")]
    assert (now.world, now.first_step, now.next_step) == (4, 10, 20)


def test_the_window_moves_with_the_run(damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.observe.live._WINDOW_STEPS", 100)
    feed = trained(damaged, tmp_path / "usage.jsonl", steps=1)
    live = LiveRun([tmp_path / "usage.jsonl"], feed)
    live.update()
    train(feed, 1, 150)
    feed.close()
    live.update()
    now = live.now()
    assert now is not None
    assert now.next_step == 151 and 100 <= now.next_step - now.first_step < 120
    fresh = LiveRun([tmp_path / "usage.jsonl"], feed)
    fresh.update()
    again = fresh.now()
    assert again is not None and again.sources == now.sources


def test_the_node_cache_is_that_of_the_host(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    write_shards(tmp_path)
    upload(s3, tmp_path)
    index(s3, tmp_path)
    log = tmp_path / "usage.jsonl"
    run = remote_run(s3, proxy, tmp_path, usage={"log": log, "every": 5})
    with penstock.open(run, batch_size=4, rank=0, world=1).loader() as loader:
        for _ in range(20):
            next(loader)
    live = LiveRun([log])
    live.update()
    now = live.now()
    assert now is not None
    [cache] = now.caches.values()
    lines: list[Line] = list(map(json.loads, log.read_text().splitlines()))
    hits, misses = (sum(line["cache"][name] for line in lines) for name in ("hits", "misses"))
    assert (cache.held, cache.limit) == tuple(lines[-1]["cache_held"])
    assert cache.hit_share == pytest.approx(hits / (hits + misses))
    fetched = sum(line["cache"]["bytes_fetched"] for line in lines[1:])
    assert cache.download_rate == pytest.approx(fetched / (lines[-1]["time"] - lines[0]["time"]))


def test_a_data_loader_with_workers_is_one_rank(damaged: Path, tmp_path: Path) -> None:
    feed = opened(damaged, batch_size=4, usage={"log": tmp_path / "usage.jsonl"})
    loader: Any = DataLoader(feed, batch_size=None, sampler=feed.steps(), num_workers=2)  # type: ignore[arg-type]
    for _, _batch in zip(range(8), loader, strict=False):
        pass
    del loader
    live = LiveRun([tmp_path / "usage.jsonl"], feed)
    live.update()
    now = live.now()
    assert now is not None
    [rank] = now.ranks
    assert rank.next_step == now.next_step >= 8 and rank.waits is None and now.first_step == 0


def test_a_ledger_of_another_run_is_refused(run: tuple[Feed, list[str]], damaged: Path, tmp_path: Path) -> None:
    _, texts = run
    log = tmp_path / "usage.jsonl"
    log.write_text("".join(texts))
    other = trained(damaged, tmp_path / "other.jsonl", steps=1, seed=5)
    with pytest.raises(ValueError, match="written by another run"):
        LiveRun([log], other).update()
