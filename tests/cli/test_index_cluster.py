"""``penstock index`` on a real Ray cluster, and of a run by jobs of an array: the same bytes as locally."""

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock import index
from penstock.readers.records import fileindex
from penstock.readers.records.tablefolder import newest_table
from penstock.store.cache.maintenance import INDEXES
from tests.cli.commands import complaint, run
from tests.pipelines.chat_sources import TOKENIZER, records, run_keys
from tests.runtime.engines.clusters import killed_worker, running_cluster
from tests.shards import write_shards


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with running_cluster():
        yield


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of several segments, and small files."""
    folder = tmp_path_factory.mktemp("chats")
    TOKENIZER.save_pretrained(folder / "tokenizer")
    (folder / "data").mkdir()
    lines = [json.dumps(each) for each in records(3_000)]
    long = [json.dumps({**json.loads(line), "more": "x" * 1_000}) for line in lines]
    (folder / "data" / "large.jsonl").write_text("".join(f"{line}\n" for line in long))
    for number in range(300):
        own = lines[number * 10 : (number + 1) * 10]
        (folder / "data" / f"small{number:03}.jsonl").write_text("".join(f"{line}\n" for line in own))
    return folder


def config_of(chats: Path, cache: Path) -> Path:
    keys = run_keys(chats, chats / "data" / "*.jsonl", chat={"pack": True})
    keys["chat"]["tokenizer"] = str(chats / "tokenizer")
    keys["cache"]["dir"] = str(cache)
    path = cache.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(keys))
    return path


def shelf_of(cache: Path) -> dict[str, bytes]:
    """What is stored of indexes; locks and notes are hidden."""
    shelf = cache / ".penstock" / INDEXES
    found = [path for path in shelf.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert {path.suffix for path in found} >= {".learnt", ".items"}
    return {str(path.relative_to(shelf)): path.read_bytes() for path in found if path.suffix != ".versions"}


def index_of(cache: Path) -> dict[str, bytes]:
    """What is stored of indexes, with the newest table of each source: older ones stay for some minutes."""
    found = {name: data for name, data in shelf_of(cache).items() if not name.startswith("tables")}
    for folder in (cache / ".penstock" / INDEXES / "tables").iterdir():
        table = newest_table(folder).path
        assert table is not None, "parts are left"
        found[folder.name] = table.read_bytes()
    return found


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.scale
def test_ray_writes_the_manifest_of_local_processes_also_if_a_worker_is_killed(cluster: None, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_shards(tmp_path / "data", {"hindi": [40] * 12, "tamil": [40] * 12}, bytes_each=40_000)
    assert run("index", tmp_path / "data", "-o", tmp_path / "whole").exit_code == 0
    with killed_worker():
        result = run("index", tmp_path / "data", "-o", tmp_path / "out", "--engine", "ray")
    assert result.exit_code == 0, result.output
    assert content_of(tmp_path / "out") == content_of(tmp_path / "whole")


def refuse(*_: object) -> None:
    raise AssertionError("a segment was made by the process that asked")


@pytest.mark.scale
def test_workers_of_ray_make_all_of_the_chat_index_of_this_process(
    cluster: None, chats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("index", config_of(chats, tmp_path / "one"), "--workers", "0").exit_code == 0
    monkeypatch.setattr(fileindex, "index_segment", refuse)  # in this process only: workers import their own
    refused = run("index", config_of(chats, tmp_path / "refused"), "--workers", "0")
    assert isinstance(refused.exception, AssertionError)
    result = run("index", config_of(chats, tmp_path / "two"), "--engine", "ray")
    assert result.exit_code == 0, result.output
    assert index_of(tmp_path / "one") == index_of(tmp_path / "two")


def test_jobs_and_a_last_command_make_the_chat_index_of_one(chats: Path, tmp_path: Path) -> None:
    assert run("index", config_of(chats, tmp_path / "one"), "--workers", "0").exit_code == 0
    config = config_of(chats, tmp_path / "two")
    made: list[set[str]] = []
    for number in (1, 0):
        result = run("index", config, "--workers", "0", "--shard", f"{number}/2")
        assert result.exit_code == 0, result.output
        assert "when all jobs have, run the same command without --shard" in result.stdout
        made.append({name for name in shelf_of(tmp_path / "two") if name.endswith(".learnt")})
    assert made[0] < made[1], "each job has made segments"
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "two" / ".penstock" / INDEXES).glob("*.learnt")}
    assert run("index", config, "--workers", "0").exit_code == 0
    assert index_of(tmp_path / "one") == index_of(tmp_path / "two")
    assert {path: path.stat().st_mtime_ns for path in before} == before, "nothing is made twice"


@pytest.mark.scale
def test_the_script_of_the_docs_makes_the_chat_index_of_the_command(chats: Path, tmp_path: Path) -> None:
    assert run("index", config_of(chats, tmp_path / "one"), "--workers", "0").exit_code == 0
    config = config_of(chats, tmp_path / "two").rename(tmp_path / "run.yaml")
    [script] = re.findall(r"```python\n(from concurrent.*?)```", Path("docs/scale.md").read_text(), re.DOTALL)
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith("6,000 items of 6,000 records in 301 files"), done.stderr
    assert index_of(tmp_path / "one") == index_of(tmp_path / "two")
    assert list(index.tasks(config)) == []


def test_a_task_pickles_with_rows_of_its_own_files_only(chats: Path, tmp_path: Path) -> None:
    sizes = [len(pickle.dumps(task)) for task in index.tasks(config_of(chats, tmp_path / "cache"))]
    assert len(sizes) > 5 and max(sizes) < 60_000


def test_results_that_came_are_kept_and_the_rest_is_made_in_this_process(chats: Path, tmp_path: Path) -> None:
    assert run("index", config_of(chats, tmp_path / "one"), "--workers", "0").exit_code == 0
    config = config_of(chats, tmp_path / "two")

    def broken() -> Iterator[index.IndexResult]:
        yield index.make(todo[0])
        raise OSError("the cluster is gone")

    todo = list(index.tasks(config))
    with pytest.raises(OSError, match="the cluster is gone"):
        index.finish(config, broken())
    assert len(list(index.tasks(config))) == len(todo) - 1
    index.finish(config)
    assert index_of(tmp_path / "one") == index_of(tmp_path / "two")


def test_an_address_without_ray_is_one_sentence(tmp_path: Path) -> None:
    said = complaint(run("index", tmp_path, "-o", tmp_path / "out", "--address", "127.0.0.1:6379"))
    assert said == "--address: only for --engine ray"
