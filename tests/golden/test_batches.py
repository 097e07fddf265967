"""What a run delivers and how its state knows it must not change: see batches.py."""

import copy
from pathlib import Path

import pytest

from tests.golden.batches import differences, made, read
from tests.golden.runs import RUNS


@pytest.mark.parametrize("name", RUNS)
def test_state_and_batches_are_those_that_the_golden_file_pins(tmp_path: Path, name: str) -> None:
    assert differences(read()[name], made(name, tmp_path)) == []


def test_every_pinned_run_is_still_made() -> None:
    assert list(read()) == list(RUNS)


def test_a_difference_is_named_by_its_field() -> None:
    pinned = read()["speech"]
    found = copy.deepcopy(pinned)
    found["floats"]["feats"] = [value + 1e-3 for value in found["floats"]["feats"]]  # another CPU
    assert differences(pinned, found) == []
    found["floats"]["feats"][7] += 0.1
    found["exactly"]["ids"] = ""
    found["state"]["fingerprint"]["items"] = ""
    assert differences(pinned, found) == ["state fingerprint", "exactly ids", "floats feats"]
