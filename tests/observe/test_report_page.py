"""The report in a real browser: plots are visible, nothing is requested, and nothing of the data is run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.browsing import Visit, chromium, visit
from tests.cli.commands import config_of, run
from tests.observe.trained import train

pytestmark = pytest.mark.see

HOSTILE = "<script>document.title='run'</script><img src='http://127.0.0.1:9/x' onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run of which a source has a hostile name."""
    folder = tmp_path_factory.mktemp("run")
    config = config_of(folder, global_batch_size=9, usage={"log": str(folder / "usage.jsonl"), "every": 10})
    filelist = folder / "train.tsv"
    filelist.write_text(filelist.read_text().replace("\tgujarati\t", f"\t{HOSTILE}\t"))
    feed = penstock.open(config, rank=0, world=1)
    train(feed, 0, 60)
    feed.close()
    out = folder / "report.html"
    result = run("report", folder / "usage.jsonl", "--config", config, "-o", out)
    assert result.exit_code == 0, result.output
    return out


def check_quiet(visited: Visit) -> None:
    """Nothing was requested but files and data, nothing of the page was blocked, and nothing of the data was run."""
    assert visited.requests and all(re.match("(file|data):", url) for url in visited.requests)
    assert visited.messages == []
    assert visited.page.title().startswith("Report of ")
    assert visited.run("document.scripts.length") == 0


def test_plots_are_visible_and_nothing_is_requested(browser: Any, report: Path) -> None:
    visited = visit(browser, report)
    script = """[...document.querySelectorAll('.plot')].map(plot => {
        const box = plot.getBoundingClientRect()
        return [plot.complete, plot.naturalWidth, box.width, box.height]
    })"""
    plots = visited.run(script)
    assert len(plots) >= 6, "shares, distances from quotas, throughput, waits, coverage, losses"
    assert all(complete and natural > 300 and width > 300 and height > 80 for complete, natural, width, height in plots)
    check_quiet(visited)


def test_a_script_in_the_name_of_a_source_is_shown_and_not_run(browser: Any, report: Path) -> None:
    visited = visit(browser, report)
    visited.page.wait_for_timeout(300)
    shown = visited.run("document.querySelector('main').innerText")
    assert shown.count(HOSTILE) >= 3, "in legends and tables"
    check_quiet(visited)


def test_the_report_is_light_or_dark_as_the_system_is_and_fits_a_narrow_window(browser: Any, report: Path) -> None:
    filters = {
        scheme: visit(browser, report, color_scheme=scheme).run(
            "getComputedStyle(document.querySelector('.plot')).filter"
        )
        for scheme in ("light", "dark")
    }
    assert filters["light"] == "none" and filters["dark"] != "none"
    narrow = visit(browser, report, viewport={"width": 380, "height": 800})
    assert narrow.run("document.documentElement.scrollWidth") <= 380
    lines = """[...document.querySelectorAll('td:not(:first-child)')].filter(cell => cell.textContent).map(cell => {
        const range = document.createRange()
        range.selectNodeContents(cell)
        return range.getClientRects().length
    })"""
    assert set(narrow.run(lines)) == {1}, "no number is broken over lines"
    assert narrow.run("document.querySelector('.plot').clientWidth") >= 640, "it scrolls inside of its card"
