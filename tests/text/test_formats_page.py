"""docs/formats.md is true: its code runs, its dtypes and reasons are all there are."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.text import formats
from penstock.text.formats import registry
from penstock.text.formats.builtin import BUILTIN

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text()


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """What the page registers is gone afterwards."""
    before = dict(registry._FORMATS)
    yield
    registry._FORMATS.clear()
    registry._FORMATS.update(before)


def test_the_code_of_the_page_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"print\(.*?\)  +# (.*)", PAGE)
    assert printed == [said[0], said[1], *said[2].split(", then ")]
    assert formats.find("poem")({"topic": "rain", "lines": "drip"}, {})["dtype"] == "poem"
    with pytest.raises(formats.Rejected, match="fewer than 13 lines"):
        formats.find("long_poem")({"topic": "rain", "lines": "drip"}, {})
    german = formats.find("german_qa")({"frage": "Was?", "antwort": "Das."}, {})
    assert german["messages"][1]["content"] == "Das." and german["dtype"] == "german_qa"


def test_a_format_of_your_own_takes_five_lines() -> None:
    block = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    assert len([line for line in block.splitlines() if line]) == 5


def test_the_table_lists_all_built_in_dtypes_with_their_modality() -> None:
    table = PAGE.split("## Built-in formats")[1].split("## ")[0]
    rows = [re.split(r" \| ", line.strip("| ")) for line in table.splitlines() if line.startswith("| `")]
    listed = {dtype: row[1] for row in rows for dtype in re.findall(r"`(\w+)`", row[0])}
    assert listed == {each.dtype: each.modality for each in BUILTIN}


TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
TAGS = [{"role": "user", "content": "<image><image>"}, *TURNS]
CALL = {"from": "function_call", "value": "f()"}
REJECTED: dict[str, tuple[str, dict[str, Any]]] = {
    "no messages": ("conversation", {"messages": []}),
    "no assistant turn": ("conversation", {"messages": TURNS[:1]}),
    "no answer": ("conversation", {"question": "a"}),
    "no completion": ("conversation", {"prompt": TURNS[:1]}),
    "no chosen answer": ("conversation", {"prompt": "a", "chosen": "", "rejected": "b"}),
    "label: false": ("conversation", {"messages": TURNS, "label": False}),
    "unknown role 'critic'": ("conversation", {"messages": [{"role": "critic", "content": "a"}]}),
    "2 <image> tags but 1 image": ("vision", {"messages": TAGS, "images": ["1"]}),
    "no image": ("image_caption", {"caption": "a"}),
    "no video": ("video_caption", {"caption": "a"}),
    "no audio": ("voice_asr", {"text": "a"}),
    "no transcript": ("voice_asr", {"audio": "1"}),
    "no prompt": ("generation", {}),
    "no text": ("text", {}),
    "tools are not JSON": ("tool_use", {"messages": TURNS, "tools": "f()"}),
    "tool calls are not JSON": ("tool_use", {"conversations": [CALL]}),
    "messages are not JSON": ("conversation", {"messages": "a"}),
    "the answer is none of the options": ("conversation", {"question": "a", "choices": ["b"], "answer": "c"}),
    "no conversation in the columns a, b": ("conversation", {"a": 1, "b": 2}),
    "a single message of a tree": ("conversation", {"message_id": "1", "parent_id": None, "text": "a"}),
    "the format raised KeyError 'lines'": ("poem", {}),
    "the format returned None": ("none", {}),
}


def test_the_reasons_of_the_page_are_those_that_records_are_rejected_for() -> None:
    table = PAGE.split("## Why a record is rejected")[1].split("## ")[0]
    first_cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    assert re.findall(r"`([^`]+)`", " ".join(first_cells)) == list(REJECTED)
    formats.register("poem")(lambda record, tokens: {"text": record["lines"]})
    formats.register("none")(lambda record, tokens: None)
    for reason, (dtype, record) in REJECTED.items():
        with pytest.raises(formats.Rejected) as rejected:
            formats.find(dtype)(record, {})
        assert str(rejected.value) == reason
