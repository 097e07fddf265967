"""Panels as HTML and SVG."""

import json

import numpy as np
import pytest

from penstock.observe.page.drawn import draw
from penstock.recipes.file_panels import file_panel
from penstock.recipes.panels import CurvePanel, SoundPanel
from tests.observe.page.pages import Page, content
from tests.observe.page.runs import HOSTILE


def test_the_values_of_a_json_file_are_shown_by_name() -> None:
    values = {"text": HOSTILE, "words": ["ক", 1.5, None], "\u202ename": {"a": 1}}
    page = Page(draw(file_panel("left.json", json.dumps(values).encode()), 0))
    assert page.texts("h4") == ["left.json"]
    assert page.texts("dt") == ["text", "words", "\\u202ename"]
    assert page.texts("dd") == [HOSTILE, '["ক", 1.5, null]', '{"a": 1}']
    assert [tag for tag, *_ in page.elements] == ["section", "h4", "dl", *["dt", "dd"] * 3]


@pytest.mark.filterwarnings("error")
def test_values_that_are_not_finite_leave_gaps_in_curves() -> None:
    values = np.array([[1.0, np.nan], [np.inf, np.nan], [3.0, np.nan]])
    panel = CurvePanel(np.arange(3) / 10, values, np.zeros(3, bool), title="action")
    page = Page(draw(panel, 0))
    assert [each["d"] for each in page.all("path")] == ["M6 104L294 6"]
    assert [each["cx"] for each in page.all("circle")] == ["6", "294"]
    assert page.texts("p") == ["+0 s to +0.2 s; values 1 to 3", "not finite: 4 of 6 values"]


@pytest.mark.filterwarnings("error")
def test_values_that_are_not_finite_are_silent_in_sounds() -> None:
    samples = np.full(8_000, 0.5, np.float32)
    samples[[3, 7]] = np.nan, -np.inf
    page = Page(draw(SoundPanel(samples, 16_000), 100_000))
    assert page.texts("p", "left") == ["not finite, and 0 here: 2 of 8,000 values"]
    assert "nan" not in page.all("path")[0]["d"]
    heard = np.frombuffer(content(page.all("audio")[0]["src"])[44:], "<i2")
    assert np.flatnonzero(heard == 0).tolist() == [3, 7] and len(heard) == 8_000
