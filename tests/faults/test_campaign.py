"""One round of every fault; ``make faults`` plays 200."""

from pathlib import Path

import pytest

from tests.faults.campaign import FAULTS, campaign

pytestmark = pytest.mark.long


@pytest.mark.timeout(300)
def test_every_stream_equals_its_plan_or_ends_with_one_clear_line(tmp_path: Path) -> None:
    found = campaign(len(FAULTS), seed=0, places=2, folder=tmp_path, names=list(FAULTS))
    assert {name for name, _ in found} == set(FAULTS)
