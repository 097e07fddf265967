"""``penstock cache``: what is in a node cache, is it right, empty it."""

import re
from pathlib import Path

import pytest
import yaml

import penstock
from penstock.feed.steps import Steps
from tests.cli.commands import complaint, config_of, run
from tests.cli.test_warm import written
from tests.conftest import S3Prefix
from tests.e2e.bucket import upload
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

SIZES = {"hindi": [9, 6], "odia": [7]}


@pytest.fixture
def config(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> Path:
    """A run whose cache holds all its shards, whole."""
    write_shards(tmp_path, SIZES, bytes_each=5_000)
    upload(s3, tmp_path)
    path = written(s3, proxy, tmp_path)
    assert run("warm", path, "--steps", 10).exit_code == 0
    return path


def test_stat_tells_what_is_there_and_what_was_done(config: Path, proxy: FaultProxy) -> None:
    size = sum(path.stat().st_size for path in config.parent.glob("*.tar"))
    for where in (config, config.parent / "cache"):
        result = run("cache", "stat", where)
        assert result.exit_code == 0, result.output
        assert "│ folder " in result.output
        assert f"{size:,}" in result.output and "3: 3 complete, 0 in use" in result.output
        assert f"{size:,} in {len(proxy.log('GET'))} requests" in result.output
    assert "of 1,000,000,000" in run("cache", "stat", config).output


def test_verify_finds_bytes_that_are_not_those_of_the_etag(config: Path) -> None:
    result = run("cache", "verify", config)
    assert result.exit_code == 0 and "3 good, 0 incomplete, 0 not checkable, 0 bad" in result.output
    (damaged,) = (config.parent / "cache").rglob("odia-0.tar~*.data")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    result = run("cache", "verify", config)
    assert result.exit_code == 2 and "2 good, 0 incomplete, 0 not checkable, 1 bad" in result.stdout
    assert "odia-0.tar" in result.stderr


def test_clear_removes_what_no_process_uses(config: Path, proxy: FaultProxy) -> None:
    size = sum(path.stat().st_size for path in config.parent.glob("*.tar"))
    feed = penstock.open(config, rank=0, world=1)
    with feed.walk(Steps(0, 10)) as walk:
        walk.units(0)
        result = run("cache", "clear", config)
        first, scratch = result.output.splitlines()
        removed, kept = (int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", first))
        assert "kept because they are in use" in first and kept > 0 and removed + kept == size
        assert scratch.endswith(" bytes of compiled filelists and stored indexes removed")
        proxy.clear()
        walk.units(0)
        assert proxy.log("GET") == [], "what the run has in use stays"
    feed.close()
    rest = run("cache", "clear", config).output.split()[0].replace(",", "")
    assert int(rest) >= kept, "and what was fetched ahead again in the meantime"
    assert not list((config.parent / "cache").rglob("*.data"))
    assert run("cache", "clear", config).output == "0 bytes removed\n"


def test_clear_removes_all_after_a_single_step(config: Path) -> None:
    size = sum(path.stat().st_size for path in config.parent.glob("*.tar"))
    penstock.open(config, rank=0, world=1).batch(0)
    assert run("cache", "clear", config).output.startswith(f"{size:,} bytes removed\n"), "no walk needs more of it"


@pytest.mark.parametrize("command", ["stat", "verify", "clear"])
def test_a_folder_that_is_no_cache_is_not_touched(tmp_path: Path, command: str) -> None:
    (tmp_path / "mine.data").write_text("precious")
    assert "is not a node cache" in complaint(run("cache", command, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.data"]


def test_a_config_that_names_no_cache_has_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    config = config_of(tmp_path)
    options = {key: value for key, value in yaml.safe_load(config.read_text()).items() if key != "cache"}
    config.write_text(yaml.safe_dump(options))
    for command in ("stat", "verify", "clear"):
        told = complaint(run("cache", command, config))
        assert told == f"there is no cache at {tmp_path / 'home' / 'penstock'} yet; a run or `penstock warm` creates it"
    assert "no such folder" in complaint(run("cache", "stat", tmp_path / "none"))
    penstock.open(config, rank=0, world=1).close()
    assert "compiled filelists" in run("cache", "clear", config).output
    assert "0 complete" in run("cache", "stat", config).output
    penstock.open(config, rank=0, world=1).close()


def test_looking_with_a_smaller_bound_evicts_nothing(config: Path) -> None:
    options = yaml.safe_load(config.read_text())
    options["cache"]["size"] = 1_000
    config.write_text(yaml.safe_dump(options))
    before = sorted((config.parent / "cache").rglob("*.data"))
    assert "of 1,000 " in run("cache", "stat", config).output
    assert "3 good" in run("cache", "verify", config).output
    assert sorted((config.parent / "cache").rglob("*.data")) == before != []
