"""Every dataset of examples/chat/datasets.yaml: a record with its real columns, and the text that is made of it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from penstock.text.formats import find, require_tokens
from tests.text.rendering import TOKENS, rendered

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "chat"
SOURCES = yaml.safe_load((ROOT / "examples" / "chat" / "datasets.yaml").read_text())["sources"]
GOLDEN = json.loads((DATA / "golden.json").read_text())
FEWEST = {
    "code": 10,
    "conversation": 4,
    "tool_use": 4,
    "agentic": 5,
    "vision": 5,
    "video": 10,
    "generation": 15,
    "voice": 4,
}
KINDS = {"ui_to_code": "vision", "image_caption": "vision", "image_vqa": "vision"}
KINDS |= {"video_qa": "video", "video_caption": "video", "voice_asr": "voice", "voice_tts": "voice"}
KINDS |= dict.fromkeys(("image_generation", "video_generation", "image_to_video", "image_editing"), "generation")


def records(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / "fixtures" / f"{name}.json").read_text())
    return found


def formatted(dtype: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is pinned of each record: its text, its media, and what is to be generated."""
    made = []
    used = find(dtype)
    for record in records:
        sample = used(record, TOKENS)
        kept = {key: value for key, value in sample.items() if key not in ("messages", "text", "dtype") and value}
        made.append({"text": rendered(sample, used.system), **kept})
    return made


@pytest.mark.parametrize("entry", SOURCES, ids=lambda entry: str(entry["name"]))
def test_a_record_with_the_columns_of_the_dataset_becomes_its_golden_text(entry: dict[str, Any]) -> None:
    assert formatted(entry["dtype"], records(entry["name"])) == GOLDEN[entry["name"]]


@pytest.mark.parametrize("entry", SOURCES, ids=lambda entry: str(entry["name"]))
def test_a_way_through_arrow_changes_nothing(entry: dict[str, Any]) -> None:
    table = pa.Table.from_pylist(records(entry["name"]))
    assert formatted(entry["dtype"], table.to_pylist()) == GOLDEN[entry["name"]]


def test_each_entry_has_a_name_of_its_own_a_dtype_and_a_path() -> None:
    assert {key for entry in SOURCES for key in entry} == {"name", "dtype", "path", "split", "config"}
    assert all({"name", "dtype", "path"} <= set(entry) for entry in SOURCES)
    names = Counter(entry["name"] for entry in SOURCES)
    assert max(names.values()) == 1
    assert set(names) == set(GOLDEN) == {path.stem for path in (DATA / "fixtures").iterdir()}


def test_there_are_as_many_of_each_kind_as_the_data_module_lists() -> None:
    counts = Counter(KINDS.get(entry["dtype"], entry["dtype"]) for entry in SOURCES)
    assert all(counts[kind] >= fewest for kind, fewest in FEWEST.items())


def test_their_formats_find_all_tokens_that_they_use() -> None:
    require_tokens([find(entry["dtype"]) for entry in SOURCES], TOKENS)
