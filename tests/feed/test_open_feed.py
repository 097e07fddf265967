"""A run opened by its recipe: options of the section are given directly, from a file, a mapping or alone."""

import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.shards import small_run, write_shards

REST = {"text": False, "text_field": None, "tokenizer": None, "json_fields": (), "augment": ()}
"""Keys of ``speech`` that the tests leave alone."""


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Any]:
    write_shards(tmp_path)
    return json.loads(json.dumps({**small_run(tmp_path), "batch_size": 2}, default=str))


def section(feed: penstock.Feed) -> dict[str, Any]:
    found = dict(feed.config.options["speech"])
    feed.close()
    return found


@pytest.mark.parametrize("as_file", [True, False])
def test_an_option_of_speech_changes_its_own_key_only(keys: dict[str, Any], tmp_path: Path, as_file: bool) -> None:
    config = {**keys, "speech": {"crop": "2s", "channel": "mean"}}
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(config))
    feed = penstock.speech(path if as_file else config, crop="3s", seed=5, rank=1, world=2)
    assert (feed.rank, feed.world, feed.config.seed, feed.config.recipe) == (1, 2, 5, "speech")
    assert section(feed) == {"crop": 3.0, "channel": "mean", "features": True, **REST}


def test_options_of_speech_need_no_config(keys: dict[str, Any]) -> None:
    assert section(penstock.speech(**keys, features=False)) == {
        "crop": 6.0,
        "channel": "first",
        "features": False,
        **REST,
    }


def test_an_option_wins_over_a_section_that_is_given_beside_it(keys: dict[str, Any]) -> None:
    feed = penstock.speech(**keys, speech={"crop": "2s", "channel": "mean"}, crop="full")
    assert section(feed) == {"crop": "full", "channel": "mean", "features": True, **REST}


def test_a_wrong_option_of_speech_is_named_in_its_section(keys: dict[str, Any]) -> None:
    with pytest.raises(penstock.ConfigError, match=r"speech\.channel: 'left' is not one of first, mean"):
        penstock.speech(**keys, channel="left")
