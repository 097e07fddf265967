"""The steps that used an item, by the plan and the ledger, are those whose batches had it: also as a substitute."""

from pathlib import Path

import penstock
from penstock.feed.excluding import find_named
from penstock.observe.forgetting import read_reported, trace
from penstock.observe.runlog import RunLog
from tests.observe.page.runs import write_config

STEPS = 14


def test_steps_are_those_whose_batches_had_the_item(tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    config = write_config(tmp_path, ["raw"], global_batch_size=3, usage={"log": str(log), "every": 5})
    feed = penstock.open(config, rank=0, world=1)
    used: dict[str, list[int]] = {}
    substitutes = set()
    with feed.loader(threads=0) as loader:
        for step in range(STEPS):
            batch = next(loader)
            names = [
                f"{group}:{id}" for group, id in zip(feed.catalog.group_names(batch["rows"]), batch["ids"], strict=True)
            ]
            for name in names:
                used.setdefault(name, []).append(step)
            substitutes |= {names[bad.slot] for bad in batch["bad"]}
    feed.close()
    reported = read_reported(RunLog([log], feed))
    assert substitutes and reported.replaced
    missing = ["shard-0.tar:missing", "shard-1.tar:missing"]  # planned, and always replaced
    for name in [*used, *missing]:
        named, _ = find_named([name], feed.catalog)
        found = trace(feed, named, reported, lambda *_: None)
        steps = used.get(name, [])
        assert found.steps == sorted(set(steps)), name
        assert found.uses == len(steps)
        assert found.clean == (steps[0] if steps else STEPS)
