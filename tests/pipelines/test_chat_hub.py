"""Chat sources on the dataset hub: by name, config and split; what is wrong with them; and without a connection."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from huggingface_hub import constants
from PIL import Image

from tests.pipelines.chat_sources import KINDS, open_chat, records
from tests.servers.datasethub import DatasetHub
from tests.text.rendering import TOKENS

FILES = {
    "data/train-00000-of-00001.parquet": KINDS["rows.parquet"](records(30)),
    "data/test-00000-of-00001.parquet": KINDS["rows.parquet"](records(5, "rainy")),
}
OTHERS = {"some/gated": (403, "GatedRepo"), "some/limited": (429, "")}


def entry(name: str, path: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "dtype": "conversation", "path": path, **keys}


GOOD = [entry("good", "some/qa")]
TEST_SPLIT = [entry("good", "some/qa", split="test")]
FILES_BY_NAME = [entry("good", "hf://datasets/some/qa@main/data/train-*.parquet")]
WRONG = [
    *GOOD,
    entry("gated", "some/gated"),
    entry("missing", "some/none"),
    entry("limited", "some/limited"),
    entry("split", "some/qa", split="dev"),
    entry("config", "some/qa", config="other"),
    entry("typo", "dta/rows.jsonl"),
]


def opened(
    folder: Path, hub: DatasetHub, runs: list[list[dict[str, Any]]], *, offline: bool, download: str = ""
) -> Any:
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "user"),
        "HF_HUB_OFFLINE": "1" if offline else "0",
        "HF_HUB_DISABLE_XET": "1",
    }
    command = [sys.executable, "-m", "tests.pipelines.hub_child", str(folder / "run"), json.dumps(runs)]
    done = subprocess.run(
        [*command, *([download] if download else [])], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DatasetHub, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("hub")
    hub = DatasetHub("some/qa", FILES)
    hub.others = OTHERS
    with hub:
        return (
            folder,
            hub,
            opened(folder, hub, [GOOD, TEST_SPLIT, FILES_BY_NAME, WRONG], offline=False, download="some/qa"),
        )


def test_a_dataset_is_found_by_name_and_split_or_by_its_files(online) -> None:
    _, _, (good, split, by_name, _) = online
    assert "sunny" in good["text"]
    assert "rainy" in split["text"]
    assert by_name["text"] == good["text"]


def test_a_feed_that_was_pickled_lists_nothing_again(online) -> None:
    for each in online[2][:3]:
        assert each["same"]
        assert each["listed"] == []


def test_all_that_is_wrong_comes_in_one_message_with_what_to_do(online) -> None:
    lines = online[2][3]["error"].splitlines()
    assert len(lines) == 6
    assert "sources: gated: some/gated" in lines[0]
    assert "gated dataset" in lines[0]
    assert "Set HF_TOKEN" in lines[0]
    assert "doesn't exist on the Hub or cannot be accessed" in lines[1]
    assert "sources: limited: some/limited: the hub limits the rate of requests (HTTP 429); try again later" in lines[2]
    assert lines[3] == "sources: split: some/qa: there is no split 'dev'; there are train, test"
    assert "BuilderConfig 'other' not found" in lines[4]
    assert lines[5] == f"sources: typo: {Path('dta/rows.jsonl').absolute()}: there is no such file or folder"


def test_without_a_connection_what_was_downloaded_serves_with_the_same_state(online) -> None:
    folder, hub, (good, *_) = online
    kept, missing = opened(folder, hub, [GOOD, [entry("missing", "some/none")]], offline=True)
    assert kept["text"] == good["text"]
    assert kept["state"] == good["state"]
    assert "the hub can't be reached" in missing["error"]
    assert "nothing of it is in the hub's local cache, and there is no file" in missing["error"]


def test_records_that_were_downloaded_may_name_files_of_their_dataset_only(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "hub" / "datasets--some--seen" / "snapshots" / ("a" * 40)
    folder.mkdir(parents=True)
    (tmp_path / "hub" / "datasets--some--seen" / "refs").mkdir()
    (tmp_path / "hub" / "datasets--some--seen" / "refs" / "main").write_text("a" * 40)
    for path in (tmp_path / "private.png", folder / "own.png"):
        Image.new("RGB", (8, 8)).save(path)
    named = ("own.png", str(tmp_path / "private.png"), "../../../../private.png")
    asked = [{"image": name, "question": "What is it?", "answer": "A cat."} for name in named]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, asked)))

    load = datasets.load_dataset_builder

    def without_hub(path: str, *rest: Any, **keys: Any) -> Any:
        if path == "some/seen":
            raise ConnectionError("no network")
        return load(path, *rest, **keys)

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets, "load_dataset_builder", without_hub)
    feed = open_chat(tmp_path, {**entry("seen", "some/seen"), "dtype": "vision"}, chat={"tokens": TOKENS}, batch_size=3)
    batch = feed.batch(0)
    assert batch["ids"] == ["0", "0", "0"]
    assert all("outside of its source's folder" in bad.reason for bad in batch["bad"])
    assert len(batch["bad"]) >= 2
