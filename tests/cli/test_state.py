"""``penstock state``: whether a saved state fits a config, and what differs."""

import json
from pathlib import Path

import numpy as np
import pytest

import penstock
from tests.cli.commands import complaint, config_of, run


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The state of a run after 5 batches of 12."""
    (tmp_path / "then").mkdir()
    feed = penstock.open(config_of(tmp_path / "then"), rank=0, world=1)
    path = tmp_path / "state.json"
    path.write_text(json.dumps(feed.state(5)))
    return path


def test_a_state_that_fits_says_where_the_run_goes_on(saved: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path)
    result = run("state", saved, config)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{saved} fits {config}",
        "The run continues at step 5, sample 60, with global batches of 12.",
    ]


def test_another_batch_size_fits_and_is_named(saved: Path, tmp_path: Path) -> None:
    result = run("state", saved, config_of(tmp_path, global_batch_size=None, batch_size=4), "--world", "2")
    assert result.exit_code == 0
    assert result.stdout.endswith("at step 5, sample 60, with global batches of 8, 12 before.\n")


def test_what_differs_has_a_line_each(saved: Path, tmp_path: Path) -> None:
    sizes = {"assamese": [5, 7, 4], "bengali": [6, 6], "gujarati": [3, 4, 3]}
    config = config_of(tmp_path, sizes, seed=3, pool=4)
    result = run("state", saved, config)
    assert result.exit_code == 1
    first, *lines, last = result.stdout.splitlines()
    assert first == f"{saved} does not fit {config}:"
    assert lines[0] == "- seed (0 then, 3 now)"
    assert lines[1].startswith("- items (of ")
    assert lines[-1] == "- pool (2 then, 4 now)"
    assert "strict=False" in last


def test_only_an_earlier_state_fits_a_config_that_excludes_items(saved: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path, exclude=[{"at": 24, "items": ["bengali-0.tar"]}])
    result = run("state", saved, config)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:] == [
        "- exclude (none then, some items from sample 24 on now)",
        "Its model may have seen excluded items: load a state of sample 24 or before.",
    ]


def test_another_number_of_sources_is_named(saved: Path, tmp_path: Path) -> None:
    result = run("state", saved, config_of(tmp_path, {"assamese": [5, 7, 4], "bengali": [6, 5]}))
    assert result.exit_code == 1
    dropped = "a source that is no longer drawn stays listed, with weight 0"
    assert f"- items (3 sources then, 2 now; {dropped})" in result.stdout.splitlines()


@pytest.mark.parametrize("content", [{}, {"step": 5, "samples": 61, "segments": [[0, 0, 12]]}])
def test_what_is_no_state_does_not_fit(tmp_path: Path, content: dict[str, object]) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps(content))
    result = run("state", path, config_of(tmp_path))
    assert result.exit_code == 1
    _, why = result.stdout.splitlines()
    assert why.startswith("- not a state of a feed: it has no" if not content else "- this state contradicts itself: ")


@pytest.mark.parametrize(
    ("fingerprint", "said"),
    [
        (None, "fingerprint is None; expected a dict"),
        ({}, "fingerprint has no 'seed', 'items', 'run', 'mixture'"),
        ({"seed": False}, "seed in fingerprint is False; expected an integer"),
        ({"seed": "0"}, "seed in fingerprint is '0'; expected an integer"),
        ({"items": ["a"]}, "items in fingerprint is ['a']; expected a string"),
        ({"sources": 5}, "sources in fingerprint is 5; expected a string"),
    ],
)
def test_a_damaged_fingerprint_is_no_difference_that_could_be_restored(
    saved: Path, tmp_path: Path, fingerprint: dict[str, object] | None, said: str
) -> None:
    state = json.loads(saved.read_text())
    whole = state["fingerprint"] | fingerprint if fingerprint else fingerprint
    saved.write_text(json.dumps(state | {"fingerprint": whole}))
    result = run("state", saved, config_of(tmp_path))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:] == [f"- not a state of a feed: {said}"]


def test_a_seed_may_be_negative_and_of_numpy(tmp_path: Path) -> None:
    feed = penstock.open(config_of(tmp_path, seed=-3), rank=0, world=1)
    state = feed.state(5)
    state["fingerprint"]["seed"] = np.int64(-3)
    assert feed.resume(state) == 5


def test_a_checkpoint_that_is_no_json_is_an_error_that_says_what_to_save(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"PK\x03\x04\xff\xfe")
    said = complaint(run("state", path, config_of(tmp_path)))
    assert said.startswith(f"{path}: not valid JSON; expected a state that was saved with json.dump.")
    assert "loader.state_dict()" in said
