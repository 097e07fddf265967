"""What pages take from a ledger."""

import json
import tracemalloc
from pathlib import Path

from penstock.observe.page.ledgered import PageLedger
from tests.observe.trained import trained


def test_only_lines_of_the_pages_are_kept_of_a_long_ledger(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log, steps=20)
    [line] = [each for each in map(json.loads, log.read_text().splitlines()) if each["steps"] == [10, 20]]
    more = [{**line, "steps": [step, step + 10], "bad": []} for step in range(20, 20_020, 10)]
    with log.open("a") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in more)
    tracemalloc.start()
    ledger = PageLedger(feed, [log], range(9_998, 10_003))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 500_000, "2,000 lines take some megabytes"
    for step in range(9_998, 10_003):
        assert ledger.step(step, 1).made(0).startswith("In the ledger: rank 0 on ")


def test_the_last_report_of_a_step_counts(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log, steps=20)
    [line] = [each for each in map(json.loads, log.read_text().splitlines()) if each["steps"] == [10, 20]]
    with log.open("a") as file:
        file.write(json.dumps({**line, "steps": [15, 25], "host": "later", "bad": [], "pid": 7}) + "\n")
    ledger = PageLedger(feed, [log], range(12, 18))
    hosts = [ledger.step(step, 1).lines[0]["host"] == "later" for step in range(12, 18)]
    assert hosts == [False, False, False, True, True, True]
