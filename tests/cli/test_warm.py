"""``penstock warm``: what the steps will read is here before they are made."""

from pathlib import Path

import pytest
import yaml

import penstock
from tests.cli.commands import complaint, config_of, run
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, needed_parts, remote_run, requested_parts, upload
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

SIZES = {"hindi": [9, 6, 8, 7, 8], "odia": [7, 5, 6]}


@pytest.fixture
def config(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> Path:
    write_shards(tmp_path, SIZES, bytes_each=5_000)
    upload(s3, tmp_path)
    index(s3, tmp_path)
    return written(s3, proxy, tmp_path)


def written(s3: S3Prefix, proxy: FaultProxy, folder: Path, **options: object) -> Path:
    run_options = remote_run(s3, proxy, folder, global_batch_size=4, **options)  # type: ignore[arg-type]
    plain = {key: str(value) if isinstance(value, Path) else value for key, value in run_options.items()}
    plain["cache"] = {"dir": str(run_options["cache"]["dir"]), "size": run_options["cache"]["size"]}
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(plain))
    return path


def test_the_warmed_steps_make_no_request(config: Path, s3: S3Prefix, proxy: FaultProxy) -> None:
    result = run("warm", config, "--steps", 3)
    assert result.exit_code == 0, result.output
    asked = requested_parts(s3, proxy.log("GET"))
    feed = penstock.open(config, rank=0, world=1, prefetch={"steps": 0})
    needed = {part for step in range(3) for part in needed_parts(feed, step)}
    assert sorted(asked) == sorted(needed), "their parts, each once, and nothing else"
    sent = sum(request.sent for request in proxy.log("GET"))
    assert f"steps 0 to 2 are in the cache; {sent / 1e6:,.1f} MB downloaded" in result.output
    proxy.clear()
    for step in range(3):
        feed.batch(step)
    feed.close()
    assert proxy.log() == []
    assert "0.0 MB downloaded" in run("warm", config, "--steps", 3).output and proxy.log("GET") == []


def test_a_range_of_steps_and_one_rank(config: Path, s3: S3Prefix, proxy: FaultProxy) -> None:
    assert run("warm", config, "--steps", "5:7", "--rank", 1, "--world", 2).exit_code == 0
    feed = penstock.open(config, rank=1, world=2)
    needed = {part for step in (5, 6) for part in needed_parts(feed, step, 1, 2)}
    assert set(requested_parts(s3, proxy.log("GET"))) == needed


def test_no_more_is_fetched_than_the_cache_holds_at_once(s3: S3Prefix, proxy: FaultProxy, config: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in config.parent.glob("*.tar")}
    feed = penstock.open(config, rank=0, world=1)
    room = needed_room(config.parent)
    config = written(s3, proxy, config.parent, size=room, cache="small")
    result = run("warm", config, "--steps", 50)
    assert result.exit_code == 0, result.output
    seen: set[str] = set()
    for fitting in range(50):
        seen |= {line.group for line in feed.lines(fitting)}
        if sum(sizes[shard] for shard in seen) > room:
            break
    assert f"steps 0 to {fitting - 1} are in the cache" in result.output
    assert f"{50 - fitting} steps were left out" in result.output


def test_a_cache_that_is_too_small_for_the_run_is_refused_by_the_same_check(
    s3: S3Prefix, proxy: FaultProxy, config: Path
) -> None:
    room = needed_room(config.parent)
    config = written(s3, proxy, config.parent, size=room - 1, cache="small")
    said = complaint(run("warm", config, "--steps", "7:9"))
    assert f"at least {room:,}" in said
    with pytest.raises(penstock.ConfigError) as refused:
        penstock.open(config, rank=0, world=1).batch(7)
    assert str(refused.value) in said
    assert proxy.log("GET") == []
    result = run("warm", written(s3, proxy, config.parent, size=room, cache="enough"), "--steps", "7:8")
    assert result.exit_code == 0
    assert "steps 7 to 7 are in the cache" in result.output


def needed_room(folder: Path) -> int:
    """What a pool of two shards of each language needs, and the shard that enters next."""
    sizes = [[path.stat().st_size for path in folder.glob(f"{language}*.tar")] for language in SIZES]
    return sum(sum(sorted(each)[-2:]) for each in sizes) + max(map(max, sizes))


def test_what_cannot_be_fetched_is_told(config: Path, proxy: FaultProxy, s3: S3Prefix) -> None:
    for path in config.parent.glob("*.tar"):
        s3.put(path.name, b"another")
    assert ".tar" in complaint(run("warm", config, "--steps", 3))


def test_a_local_folder_needs_no_warming(tmp_path: Path) -> None:
    assert "nothing to warm" in complaint(run("warm", config_of(tmp_path), "--steps", 3))


@pytest.mark.parametrize("command", ["warm", "mix"])
def test_what_is_no_number_of_steps_is_told_as_typed(tmp_path: Path, command: str) -> None:
    config = config_of(tmp_path)
    for typed in ("abc", "1,000", "", "-3", "3:x"):
        told = complaint(run(command, config, f"--steps={typed}"))
        assert told == f"--steps {typed}: write 200 for the first 200 steps, or 3:9 for steps 3 to 8"
    assert "must be at least 1" in complaint(run(command, config, "--steps", 0))
