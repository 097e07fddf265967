"""Figures of the last steps go to a function, a SummaryWriter or a logger."""

import logging
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import penstock
from tests.clips import clip_run, write_clips
from tests.observe.ledgers import opened


def test_a_function_gets_the_figures_of_the_steps_since_the_last_call(damaged: Path) -> None:
    feed = opened(damaged, global_batch_size=9)
    seen: list[tuple[dict[str, float], int]] = []
    feed.log_to(lambda figures, step: seen.append((figures, step)), every=10)
    with feed.loader(threads=2) as loader:
        batches = [next(loader) for _ in range(25)]
    assert [step for _, step in seen] == [9, 19]
    for figures, last in seen:
        here = batches[last - 9 : last + 1]
        sources = [source for batch in here for source in batch["sources"]]
        shares = {name: figures[f"penstock/share/{name}"] for name in set(sources)}
        assert shares == {name: pytest.approx(sources.count(name) / 90) for name in set(sources)}
        assert figures["penstock/bad_samples"] == sum(len(batch["bad"]) for batch in batches[: last + 1])
        assert 0 <= figures["penstock/wait_share"] <= 1 and figures["penstock/samples_per_second"] > 0


def test_a_summary_writer_gets_every_figure_as_a_scalar(damaged: Path) -> None:
    class Writer:
        def __init__(self) -> None:
            self.scalars: list[tuple[str, float, int]] = []

        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            self.scalars.append((tag, scalar_value, global_step))

    feed = opened(damaged, batch_size=4)
    writer = Writer()
    feed.log_to(writer, every=2)
    with feed.loader(start=6) as loader:
        next(loader), next(loader)
    assert {step for *_, step in writer.scalars} == {7}
    assert "penstock/wait_seconds" in [tag for tag, *_ in writer.scalars]


def test_a_logger_gets_one_line(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    feed = opened(damaged, batch_size=4)
    feed.log_to(logging.getLogger("mine"), every=3)
    with caplog.at_level(logging.INFO, "mine"), feed.loader() as loader:
        for _ in range(4):
            next(loader)
    [line] = [record.getMessage() for record in caplog.records if record.name == "mine"]
    assert line.startswith("step 2: ") and "samples/s, waited " in line


def test_a_torch_data_loader_without_workers_is_counted(damaged: Path) -> None:
    feed = opened(damaged, batch_size=4)
    steps: list[int] = []
    feed.log_to(lambda _, step: steps.append(step), every=2)
    loader: Any = DataLoader(feed, batch_size=None, sampler=feed.steps())  # type: ignore[arg-type]
    for _, batch in zip(range(4), loader, strict=False):
        assert batch["step"] < 5
    assert steps[:2] == [1, 3]


def test_an_error_of_the_function_is_logged_once_and_costs_no_batch(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(figures: dict[str, float], step: int) -> None:
        raise ConnectionError("no dashboard")

    feed = opened(damaged, batch_size=4)
    feed.log_to(fail, every=1)
    with feed.loader() as loader:
        assert [next(loader)["step"] for _ in range(3)] == [0, 1, 2]
    assert caplog.text.count("no dashboard") == 1


@pytest.mark.parametrize("torch", [False, True], ids=["loader", "DataLoader"])
def test_a_step_of_batches_by_length_is_one_step_whatever_its_units(tmp_path: Path, torch: bool) -> None:
    write_clips(tmp_path, rate=1_000)
    feed = penstock.open(clip_run(tmp_path, batch={"seconds": 12, "units": 3}), rank=0, world=1)
    steps: list[int] = []
    feed.log_to(lambda _, step: steps.append(step), every=2)
    samples = 0
    if torch:
        loader: Any = DataLoader(feed, batch_size=None, sampler=feed.steps())  # type: ignore[arg-type]
        samples = sum(len(unit["ids"]) for units in islice(loader, 5) for unit in units)
    else:
        with feed.loader(threads=0) as own:
            samples = sum(len(unit["ids"]) for _ in range(5) for unit in own.next_step())
            next(own)  # a step of which only one unit was taken
    totals = feed.meter.totals()
    assert steps == [1, 3]
    assert (totals.steps, totals.next_step, sum(totals.waits)) == (5, 5, 5)
    assert sum(totals.samples.values()) >= samples > 15


def test_what_cannot_receive_figures_is_refused(damaged: Path) -> None:
    feed = opened(damaged, batch_size=4)
    with pytest.raises(TypeError, match="a function of"):
        feed.log_to("wandb")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every must be 1 or more"):
        feed.log_to(print, every=0)
