"""One round of every fault; ``make faults`` plays 200."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.campaign import BATCH, FAULTS, STEPS, Defect, campaign, judge

pytestmark = pytest.mark.long


@pytest.mark.timeout(900)
def test_every_stream_equals_its_plan_or_ends_with_one_clear_line(tmp_path: Path) -> None:
    found = campaign(len(FAULTS), seed=0, places=2, folder=tmp_path, names=list(FAULTS))
    assert {name for name, _, _ in found} == set(FAULTS)
    assert {kind for _, kind, _ in found} == {"raw", "chat", "robot"}


@pytest.mark.parametrize(
    ("samples", "bad", "message"),
    [
        ([("a/1", "wrong")] * BATCH, [0], "not as in the undamaged data"),
        ([("a/2", "two")] * BATCH, [], "other samples than planned"),
        ([("a/2", "two")] * BATCH, list(range(BATCH)), None),
        ([("a/1", "one")] * BATCH, [], None),
    ],
)
def test_a_sample_that_differs_or_is_neither_planned_nor_named_is_a_defect(
    samples: list[tuple[str, str]], bad: list[int], message: str | None
) -> None:
    run: Any = SimpleNamespace(
        start=0,
        lines=[{"step": step, "samples": samples, "bad": bad} for step in range(STEPS)],
        kind=SimpleNamespace(truth={"a/1": "one", "a/2": "two"}),
        place=SimpleNamespace(planned=lambda *_: ["a/1"] * BATCH),
        errors=lambda: "",
    )
    if message is None:
        assert judge(run, "calm", 0) == "whole"
        return
    with pytest.raises(Defect, match=message):
        judge(run, "calm", 0)
