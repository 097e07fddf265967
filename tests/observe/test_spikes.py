"""Losses find their samples: over epochs, substitutes, restarts, ranks and packs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import penstock
from penstock.feed import Feed
from penstock.observe.actual import Actual
from penstock.observe.lines import read_lines
from penstock.observe.proof import prove
from penstock.observe.runlog import RunLog
from penstock.observe.spikes import Spikes, find_spikes
from penstock.observe.usage import summarise
from tests.clips import clip_run, write_clips
from tests.observe.ledgers import opened
from tests.observe.trained import HARD, train, trained


def spikes_of(feed: Feed, *logs: Path) -> Spikes:
    return find_spikes(RunLog(logs, feed), feed)


def uses_of(feed: Feed, log: Path) -> list[tuple[int, int]]:
    """Step and slot of every time that the hard item was used, also as a substitute."""
    found = Actual(feed, log).uses_of(HARD, 1, 1)
    return sorted((use.step, use.slot) for _, use, outcome in found if outcome in ("used", "substitute"))


def test_the_item_with_high_losses_comes_first_over_epochs(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log)
    found = spikes_of(feed, log)
    [first, second, *_] = found.samples
    uses = uses_of(feed, log)
    assert first.name == f"bengali-0.tar:{HARD}" and first.source == "bengali"
    assert first.uses == len(uses) > 11, "more than planned: it is a substitute, too"
    assert first.loss == 9 and second.loss < 1.2 and (first.step, first.slot) in uses
    assert found.sources[0].name == "bengali" and found.groups[0].name == "bengali-0.tar"
    assert {int(spike.name) for spike in found.steps} <= {step for step, _ in uses}
    assert all(spike.grad_norm == 9 for spike in found.steps[:2])
    assert found.losses == 40 * 9 and found.unplaced == 0


def test_a_ledger_with_losses_is_proven_as_before(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log)
    lines = list(read_lines(log))
    assert len(lines) == 4 and None not in lines
    assert prove(feed, lines, summarise(lines, feed).lineage).wrong == []


def test_micro_batches_of_a_step_are_one_step(damaged: Path, tmp_path: Path) -> None:
    whole = spikes_of(trained(damaged, tmp_path / "whole.jsonl"), tmp_path / "whole.jsonl")
    feed = opened(damaged, global_batch_size=9, usage={"log": tmp_path / "micro.jsonl", "every": 10})
    train(feed, 0, 40, micro=4)
    feed.close()
    cut = spikes_of(feed, tmp_path / "micro.jsonl")
    assert cut.samples == whole.samples and cut.groups == whole.groups
    assert [(each.name, each.loss, each.uses) for each in cut.steps] == [
        (each.name, each.loss, each.uses) for each in whole.steps
    ]


@pytest.mark.parametrize("whole", [False, True], ids=["per unit", "per step"])
def test_units_of_batches_by_length_are_placed_in_their_step(tmp_path: Path, whole: bool) -> None:
    write_clips(tmp_path)
    log = tmp_path / "usage.jsonl"
    feeds = [penstock.open(clip_run(tmp_path, usage={"log": log, "every": 3}), rank=rank, world=2) for rank in range(2)]
    steps: dict[str, set[int]] = {}
    numbers: dict[str, int] = {}  # the loss of each item
    for feed in feeds:
        pending: list[float] = []
        with feed.loader(threads=0) as loader:
            while loader.step < 9:
                batch = next(loader)
                for id in batch["ids"]:
                    steps.setdefault(id, set()).add(batch["step"])
                losses = [float(numbers.setdefault(id, len(numbers))) for id in batch["ids"]]
                pending = [*pending, *losses] if whole else losses
                if not whole or batch["unit"] + 1 == batch["units"]:
                    feed.report(batch["step"], pending)
                    pending = []
        feed.close()
    found = find_spikes(RunLog([log], feeds[0]), feeds[0], top=1000)
    assert found.unplaced == 0 and len(found.samples) == len(steps)
    for sample in found.samples:
        id = sample.name.partition(":")[2]
        assert sample.loss == numbers[id] and sample.step in steps[id]


def test_the_last_report_counts_after_a_restart(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    usage = {"log": log, "every": 10}
    feed = opened(damaged, global_batch_size=9, usage=usage)
    train(feed, 0, 25, hard="bengali_0_2")  # of a model that is given up from step 7 on
    feed.close()
    feed = opened(damaged, global_batch_size=9, usage=usage)
    train(feed, 7, 33)
    feed.close()
    found = spikes_of(feed, log)
    assert found.losses == 40 * 9
    assert [each.name for each in found.samples[:1]] == [f"bengali-0.tar:{HARD}"]
    straight = Actual(feed, log).uses_of("bengali_0_2", 1, 1)
    early = [use.step for _, use, outcome in straight if use.step < 7 and outcome in ("used", "substitute")]
    high = [
        step for step in range(40) if any(each.step == step and each.name.endswith("_0_2") for each in found.samples)
    ]
    assert set(high) <= set(early)


def test_ranks_report_their_own_and_several_ledgers_are_one_run(damaged: Path, tmp_path: Path) -> None:
    logs = [tmp_path / f"node{rank}.jsonl" for rank in range(2)]
    for rank, log in enumerate(logs):
        one = opened(damaged, global_batch_size=8, usage={"log": log, "every": 10})
        feed = Feed(one.config, one._opened, rank=rank, world=2)
        train(feed, 0, 40)
        feed.close()
    feed = opened(damaged, global_batch_size=8)
    found = spikes_of(feed, *logs)
    assert found.losses == 40 * 8 and found.samples[0].name == f"bengali-0.tar:{HARD}"
    assert found.samples[0].world == 2
    place = found.samples[0]
    planned = [line.item for line in feed.lines(place.step, place.rank, 2)]
    assert place.slot < len(planned) == 4


def test_losses_that_are_not_finite_come_first(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(damaged, global_batch_size=9, usage={"log": log, "every": 10})
    for step in range(20):
        losses = torch.ones(9, requires_grad=True) * 2
        losses = losses.masked_fill(torch.arange(9) == 4, float("nan")) if step == 13 else losses
        feed.report(step, losses)
    feed.close()
    found = spikes_of(feed, log)
    assert found.steps[0].name == "13" and found.steps[0].above == float("inf") and found.steps[0].loss == 2
    assert (found.samples[0].step, found.samples[0].slot) == (13, 4)


def test_scalars_rank_steps_only(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(damaged, global_batch_size=9, usage={"log": log, "every": 10})
    for step in range(20):
        feed.report(step, torch.tensor(5.0 if step == 3 else 1.0))
    feed.close()
    found = spikes_of(feed, log)
    assert (found.steps[0].name, found.steps[0].loss, found.samples) == ("3", 5.0, [])


def test_reports_that_cannot_be_are_refused_in_one_sentence(damaged: Path, tmp_path: Path) -> None:
    feed = opened(damaged, global_batch_size=9, usage={"log": tmp_path / "usage.jsonl"})
    with pytest.raises(ValueError, match=r"losses of shape \[2, 3\]: .*per_sample_loss"):
        feed.report(0, np.ones((2, 3)))
    with pytest.raises(ValueError, match="3 losses for 2 rows"):
        feed.report(0, np.ones(3), rows=[0, 1])
    with pytest.raises(ValueError, match=r"add `usage: \{\}`"):
        opened(damaged, global_batch_size=9).report(0, 1.0)
    feed.report(0, np.ones(7))  # the batch has another number of rows
    feed.close()
    assert spikes_of(feed, tmp_path / "usage.jsonl").unplaced == 7


def test_the_tensor_may_change_after_it_was_reported(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(damaged, global_batch_size=9, usage={"log": log})
    for value in (torch.full((9,), 2.0), torch.full((9,), 2.0, dtype=torch.bfloat16), torch.tensor(2.0)):
        feed.report(0, value)
        value.zero_()
    feed.close()
    assert spikes_of(feed, log).steps[0].loss == 2


def test_a_saved_state_has_all_losses_before_it(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(damaged, global_batch_size=9, usage={"log": log, "every": 100})
    feed.report(0, np.ones(9))
    assert not log.exists()
    feed.state(1)
    assert json.loads(log.read_text())["steps"] == [0]


def test_half_a_line_is_counted_and_costs_nothing_else(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = trained(damaged, log)
    whole = spikes_of(feed, log)
    text = log.read_text()
    last = text.splitlines()[-1]
    assert last.startswith('{"kind": "losses"')
    log.write_text(text + last[: len(last) // 2] + "\n" + '{"kind": "later", "version": 9}\n')
    again = RunLog([log], feed)
    assert again.torn == 2 and find_spikes(again, feed) == whole


def test_a_ledger_of_another_run_is_refused(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    trained(damaged, log)
    trained(damaged, tmp_path / "other.jsonl", seed=5)
    with pytest.raises(ValueError, match="written by another run"):
        RunLog([log], opened(damaged, seed=5, global_batch_size=9))
    with pytest.raises(ValueError, match="lines of another run"):
        RunLog([log, tmp_path / "other.jsonl"])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match="not a usage ledger"):
        RunLog([tmp_path / "empty.jsonl"])
