"""The report of a run: sums that are right, on a page that needs nothing else."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock.feed import Feed
from penstock.observe.lines import read_lines
from penstock.observe.runlog import RunLog
from penstock.observe.summary.binned import Binned, WaitHistogram, bin_log
from penstock.observe.summary.charts import chart
from penstock.observe.summary.page import make_report
from penstock.observe.summary.quotas import drift_of, quota_shares
from penstock.observe.usage import summarise
from tests.clips import clip_run, write_clips
from tests.observe.ledgers import opened
from tests.observe.trained import HARD, train, trained


def binned_of(feed: Feed | None, *logs: Path) -> Binned:
    return bin_log(RunLog(logs, feed), feed)


def test_sums_of_bins_are_those_of_usage(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log, steps=60)
    usage = summarise(read_lines(log), feed)
    found = binned_of(feed, log)
    assert found.bins.samples.sum() == usage.samples == 540
    assert {name: counts.sum() for name, counts in found.bins.sources.items()} == usage.sources
    assert found.groups == usage.groups and found.seen[-1] == len(usage.groups)
    assert found.bins.bad.sum() == len(usage.bad) == sum(found.reasons.values()) > 0
    assert found.bins.edges.tolist() == list(range(0, 61, 10)) and found.bins.whole.all()
    assert found.bins.waited.sum() == pytest.approx(sum(seconds for seconds, _ in usage.stalls))


def test_no_source_is_further_off_its_quota_than_the_plan_proves(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log, steps=60, global_batch_size=8)
    drift = drift_of(feed, binned_of(feed, log))
    assert drift is not None and drift.steps == list(range(10, 61, 10))
    assert drift.bound == 0.75 and 0 < drift.worst <= 0.75
    lines = log.read_text().splitlines()
    used = json.loads(lines[0])
    used["sources"] = {
        **used["sources"],
        "bengali": used["sources"]["bengali"] + 1,
        "assamese": used["sources"]["assamese"] - 1,
    }
    log.write_text("\n".join([json.dumps(used), *lines[1:]]) + "\n")
    drift = drift_of(feed, binned_of(feed, log))
    assert drift is not None and drift.worst > 0.75


def test_losses_per_source_are_means_of_their_samples(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log, steps=60)
    bins = binned_of(feed, log).bins
    assert bins.losses[1].sum() == 540 and bins.losses[3].sum() == 60
    total, count = bins.source_losses["bengali"].sum(axis=1)
    assert (
        total / count > 1.5 and bins.source_losses["gujarati"][0].sum() / bins.source_losses["gujarati"][1].sum() < 1.1
    )
    assert binned_of(None, log).bins.source_losses == {}


def test_a_resumed_run_counts_each_step_once(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log, steps=25)
    train(feed, 7, 53)
    feed.close()
    found = binned_of(feed, log)
    assert found.bins.samples.sum() == 540 and found.bins.losses[1].sum() == 540
    assert binned_of(None, log).bins.samples.sum() == pytest.approx(540), "in proportion, where no plan cuts lines"
    drift = drift_of(feed, found)
    assert drift is not None and drift.worst <= 0.75


def test_several_ledgers_are_one_run(damaged: Path, tmp_path: Path) -> None:
    logs = [tmp_path / f"node{rank}.jsonl" for rank in range(2)]
    for rank, log in enumerate(logs):
        one = opened(damaged, global_batch_size=8, usage={"log": log, "every": 10})
        feed = Feed(one.config, one._opened, rank=rank, world=2)
        train(feed, 0, 40)
        feed.close()
    found = binned_of(feed, *logs)
    assert found.bins.samples.sum() == 320 and sorted(found.waits) == [0, 1]
    drift = drift_of(feed, found)
    assert drift is not None and drift.worst <= 0.75
    alone = binned_of(feed, logs[0])
    assert alone.bins.samples.sum() == 160 and drift_of(feed, alone) is None, "half of the samples prove nothing"


def test_percentiles_of_waits_are_right_to_within_four_percent() -> None:
    seconds = np.random.default_rng(3).lognormal(-5, 2, 20_000)
    waits = WaitHistogram()
    for part in np.split(seconds, 20):
        waits.add(part)
    for share in (0.5, 0.95, 0.99):
        assert waits.percentile(share) == pytest.approx(np.quantile(seconds, share), rel=0.04)
    still = WaitHistogram()
    still.add(np.zeros(10))
    assert still.percentile(0.99) == 0 and still.longest == 0


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [str(given[key]) for key in ("src", "href") if key in given]
        assert not [key for key in given if key.startswith("on") or key == "style"]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(given["content"])


def test_the_page_is_one_file_without_scripts_and_data_is_never_markup(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log, steps=60)
    hostile = "<script>alert(1)</script>"
    text = log.read_text().replace("bengali-0.tar", hostile).replace('"bengali":', f'"{hostile}":')
    log.write_text(text)
    read = RunLog([log])
    page = make_report(hostile, read, bin_log(read, None), None)
    found = _Elements()
    found.feed(page)
    assert "script" not in found.tags and page.count("&lt;script&gt;") > 2
    assert found.policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in found.policy
    assert all(link.startswith("data:image/svg+xml;base64,") for link in found.links) and len(found.links) >= 6
    pictures = [b64decode(link.partition(",")[2]).decode() for link in found.links]
    assert not [picture for picture in pictures if "<script" in picture]
    assert len(page) < 500_000
    whole = make_report("run", RunLog([log]), binned_of(None, log), None)
    assert re.search("Losses per source need --config", whole) and HARD not in whole
    feed.close()


@pytest.mark.parametrize(
    ("worlds", "hosts", "said"),
    [({1}, {"a"}, "rank on 1 node"), ({2}, {"a"}, "ranks on 1 node"), ({1, 2}, {"a", "b"}, "ranks on 2 nodes")],
)
def test_ranks_and_nodes_are_counted(
    damaged: Path, tmp_path: Path, worlds: set[int], hosts: set[str], said: str
) -> None:
    log = tmp_path / "usage.jsonl"
    trained(damaged, log, steps=10)
    binned = binned_of(None, log)
    binned.worlds = worlds
    binned.hosts = hosts
    assert f"</b>{said}</div>" in make_report("run", RunLog([log]), binned, None)


@pytest.mark.parametrize(
    ("values", "dots", "ticks"),
    [
        ([1.0, np.nan, 2.0, 3.0], 1, ["0", "1", "2", "3"]),
        ([np.nan, 2.0, np.nan, 4.0], 2, ["1", "2", "3"]),
        ([1.0, 2.0], 0, ["0", "1"]),
        ([1.0], 1, ["0"]),
    ],
)
def test_values_without_neighbours_are_dots_and_steps_are_whole(
    values: list[float], dots: int, ticks: list[str]
) -> None:
    [picture] = re.findall('base64,([^"]*)', chart("Losses", range(len(values)), {"a": values}, label="loss"))
    drawn = b64decode(picture).decode()
    assert len(re.findall("<use [^>]*fill: #0b6e63", drawn)) == dots
    texts = re.findall("<text[^>]*>([^<]*)", drawn)
    assert texts[: texts.index("step")] == ticks


def test_the_same_ledger_makes_the_same_page(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log, steps=60)
    pages = {make_report("run", RunLog([log], feed), binned_of(feed, log), feed) for _ in range(2)}
    assert len(pages) == 1
    [page] = pages
    assert "✓ the largest distance is" in page and "Dotted: its quota" in page


def test_quotas_of_batches_by_length_are_those_of_their_windows(tmp_path: Path) -> None:
    write_clips(tmp_path)
    log = tmp_path / "usage.jsonl"
    feed = penstock.open(clip_run(tmp_path, usage={"log": log, "every": 2}), rank=0, world=1)
    with feed.loader(threads=0) as loader:
        while loader.step < 12:
            next(loader)
    quotas = quota_shares(feed, binned_of(feed, log))
    assert quotas is not None
    table = np.array(list(quotas.values()))
    assert np.allclose(table.sum(axis=0), 100) and (table > 0).all()
