"""``penstock simulate``: a table, JSON and a picture; from the plan alone."""

import json
from pathlib import Path

import pytest
import yaml

from benchmarks.speech_setting import write_setting
from tests.cli.commands import config_of, run


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over an index of shards that nobody can read: nothing may be downloaded."""
    folder = tmp_path_factory.mktemp("setting")
    path = write_setting(folder, clips=40, lanes=2, pool=2, shards=60)
    keys = yaml.safe_load(path.read_text())
    keys |= {"global_batch_size": 64, "cache": {"dir": str(folder / "cache"), "size": "300GB"}}
    path.write_text(yaml.safe_dump(keys))
    return path


def test_a_table_shows_the_run_and_its_nodes_without_creating_the_cache(config: Path) -> None:
    found = run("simulate", config, "--nodes", 2, "--steps", 40, "--price-per-gb", 0.1)
    assert found.exit_code == 0, found.output
    for line in ("40 steps on 2 nodes, simulated by steps", "requests", "bandwidth that is enough", "cost"):
        assert line in found.stdout
    assert "note:" not in found.stdout
    assert not (config.parent / "cache").exists()


def test_json_has_an_object_for_the_run_and_one_per_node(config: Path) -> None:
    found = run("simulate", config, "--nodes", 2, "--steps", 40, "--price-per-million-requests", 1e6, "--json")
    whole, *nodes = map(json.loads, found.stdout.splitlines())
    assert [node["node"] for node in nodes] == [0, 1]
    assert whole["requests"] == sum(node["requests"] for node in nodes) == whole["cost"]
    assert whole["bytes"] == sum(node["bytes_fetched"] for node in nodes)
    low, high = whole["requests_between"]
    assert low < whole["requests"] < high
    assert whole["notes"] == []
    for node in nodes:
        assert node["moments"][-1]["bytes_fetched"] == node["bytes_fetched"]
        assert node["moments"][-1]["seconds"] == pytest.approx(whole["hours"] * 3600)


def test_a_cache_without_room_to_fetch_ahead_is_noted_and_has_no_upper_bound(config: Path) -> None:
    free = json.loads(run("simulate", config, "--steps", 40, "--json").stdout.splitlines()[0])
    small = run("simulate", config, "--steps", 40, "--cache", f"{free['least_cache'] * 0.6e-9:.3f}GB")
    assert small.exit_code == 0, small.output
    assert "or more" in small.stdout
    assert "no room to fetch ahead" in small.stdout


def test_a_picture_is_written(config: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "run.png"
    assert run("simulate", config, "--nodes", 2, "--steps", 40, "--plot", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--bandwidth", "fast", "write it as 10Gbps"),
        ("--bandwidth", "0Gbps", "must be more than 0"),
        ("--step-time", "soon", "--step-time soon"),
        ("--cache", "huge", "--cache huge"),
        ("--cache", "1MB", "there is no room for"),
        ("--steps", "0", "--steps"),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_option(config: Path, option: str, value: str, message: str) -> None:
    found = run("simulate", config, "--nodes", 1, option, value)
    assert found.exit_code != 0
    assert message in found.output
    assert "Traceback" not in found.output


def test_a_run_over_local_folders_is_refused(tmp_path: Path) -> None:
    found = run("simulate", config_of(tmp_path))
    assert found.exit_code != 0
    assert "there is nothing to simulate" in found.output
