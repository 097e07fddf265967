"""What the index of a chat run knows and keeps: as deep as it must be, and the same batches with or without it."""

import json
import multiprocessing
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import penstock
from penstock.readers.records.building import build
from penstock.text.formats.registry import register
from penstock.text.texts import Texts
from tests.cli.commands import run
from tests.pipelines.chat_sources import KINDS, TOKENIZER, open_chat, records, run_keys, texts
from tests.text.chat_templates import CHATML
from tests.text.made_tokenizers import byte_level

ROWS = records(200)
FORK = multiprocessing.get_context("fork")  # nothing has to be imported again
BAD = ["{", "[1]", json.dumps({"prompt": "no answer"}), json.dumps({"prompt": "weighted", "completion": ""})]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexed")
    TOKENIZER.save_pretrained(folder / "tokenizer")
    weighted = {
        "messages": [
            {"role": "user", "content": "What is it?"},
            {"role": "assistant", "content": "Sunny, 21 degrees.", "weight": 0.5},
            {"role": "user", "content": "Thank you!"},
            {"role": "assistant", "content": "I have to think about this.", "train": False},
        ]
    }
    lines = [*map(json.dumps, ROWS[:100]), *BAD, json.dumps(weighted), *map(json.dumps, ROWS[100:])]
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def write_run(folder: Path, cache: Path, **keys: Any) -> Path:
    """A YAML file over the rows, with a cache of its own."""
    options = run_keys(folder, folder / "rows.jsonl", shuffle=True, **keys)
    options["chat"]["tokenizer"] = str(folder / "tokenizer")
    options["cache"]["dir"] = str(cache)
    path = folder / f"{cache.name}.yaml"
    path.write_text(yaml.safe_dump(options))
    return path


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(value, other[key]) if isinstance(value, torch.Tensor) else repr(value) == repr(other[key])
        for key, value in one.items()
    )


@pytest.mark.parametrize("chat", [{}, {"pack": True}, {"padding": "none"}])
def test_tokens_that_are_kept_make_the_same_batches(folder: Path, tmp_path: Path, chat: dict[str, Any]) -> None:
    fresh = penstock.open(write_run(folder, tmp_path / "fresh", chat=chat))
    config = write_run(folder, tmp_path / "kept", chat=chat)
    result = run("index", config, "--tokens")
    assert result.exit_code == 0, result.output
    assert "201 items of 205 records in 1 file" in result.stdout
    kept = penstock.open(config)
    assert all(same(fresh.batch(step), kept.batch(step)) for step in range(12))
    assert fresh.state(5) == kept.state(5)


def test_a_run_with_kept_tokens_neither_reads_nor_tokenizes_text(folder: Path, tmp_path: Path) -> None:
    config = write_run(folder, tmp_path / "kept")
    assert run("index", config, "--tokens").exit_code == 0
    feed = penstock.open(config)
    expected = [feed.batch(step) for step in range(3)]
    [recipe] = feed._maker._recipes.values()
    recipe.texts.encode = None  # not callable: whoever tokenizes fails
    recipe.texts.write = None
    assert all(same(feed.batch(step), expected[step]) for step in range(3))


def test_kept_tokens_that_are_damaged_or_gone_are_made_again(folder: Path, tmp_path: Path) -> None:
    config = write_run(folder, tmp_path / "kept")
    assert run("index", config, "--tokens").exit_code == 0
    expected = penstock.open(config).batch(0)
    [items] = (tmp_path / "kept").rglob("*.items")
    for damage in (bytes(items.stat().st_size), b"short", None):
        items.unlink() if damage is None else items.write_bytes(damage)
        assert same(penstock.open(config).batch(0), expected)
    assert run("index", config, "--tokens").exit_code == 0
    assert items.exists()


def test_a_deeper_index_serves_a_run_that_needs_less(folder: Path, tmp_path: Path) -> None:
    config = write_run(folder, tmp_path / "deep", chat={"pack": True})
    said = run("index", config).stdout
    assert "tokens; tokens kept: " in said and "kB; 4 left out: 2 × " in said
    made = sorted((tmp_path / "deep").rglob("*.learnt"))
    shallow = write_run(folder, tmp_path / "deep")
    feed = penstock.open(shallow)
    feed.batch(0)
    assert sorted((tmp_path / "deep").rglob("*.learnt")) == made
    assert feed.state(3) == penstock.open(write_run(folder, tmp_path / "fresh")).state(3)


def test_tokens_that_are_counted_are_kept_while_the_disk_has_room(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_run(folder, tmp_path / "cache", chat={"pack": True})
    expected = penstock.open(config).batch(0)
    assert list((tmp_path / "cache").rglob("*.items")), "also where a run makes its index itself"
    with monkeypatch.context() as patched:
        patched.setattr(Texts, "encode", None)
        assert same(penstock.open(config).batch(0), expected)
    full = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    for other, options in (("full", ()), ("refused", ("--no-tokens",))):
        config = write_run(folder, tmp_path / other, chat={"pack": True})
        assert "tokens are not kept (--tokens keeps them)" in run("index", config, "--workers", "0", *options).stdout
        assert not list((tmp_path / other).rglob("*.items"))
        assert same(penstock.open(config).batch(0), expected)
    assert "tokens kept: " in run("index", config, "--workers", "0", "--tokens").stdout


def test_an_index_that_is_deleted_is_made_again_with_the_same_batches(folder: Path, tmp_path: Path) -> None:
    config = write_run(folder, tmp_path / "cache", chat={"pack": True})
    expected = [penstock.open(config).batch(step) for step in (0, 7)]
    for path in (tmp_path / "cache").rglob("*.learnt"):
        if path.stat().st_size % 2:  # half of it
            path.unlink()
    assert same(penstock.open(config).batch(7), expected[1])
    shutil.rmtree(tmp_path / "cache")
    assert same(penstock.open(config).batch(0), expected[0])


def test_pieces_that_are_here_serve_when_the_index_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(KINDS["rows.jsonl.gz"](ROWS))
    expected = texts(open_chat(tmp_path, tmp_path / "rows.jsonl.gz"), 3)
    for path in (tmp_path / "cache").rglob("*.learnt"):
        path.unlink()
    assert texts(open_chat(tmp_path, tmp_path / "rows.jsonl.gz"), 3) == expected


@pytest.mark.parametrize("chat", [{}, {"pack": True}])
def test_a_plan_over_an_index_that_is_there_needs_no_tokenizer(
    folder: Path, tmp_path: Path, chat: dict[str, Any]
) -> None:
    config = write_run(folder, tmp_path / "cache", chat=chat)
    loaded = penstock.open(config)
    feed = penstock.open(config)
    assert list(feed.lines(3)) == list(loaded.lines(3)) and feed.state(3) == loaded.state(3)
    assert list(feed.where("rows.jsonl:7"))
    [recipe] = feed.recipes.values()
    assert "tokenizer" not in vars(recipe.texts)  # it is loaded when it is first used
    assert same(feed.batch(3), loaded.batch(3))


def test_another_tokenizer_in_the_same_folder_is_another_run(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer"
    TOKENIZER.save_pretrained(path)
    options = {"chat": {"tokenizer": str(path)}, "shuffle": True}
    before = open_chat(tmp_path, folder / "rows.jsonl", **options).state(1)
    assert open_chat(tmp_path, folder / "rows.jsonl", **options).state(1) == before
    other = byte_level(chat_template=CHATML + "{# another #}")
    other.save_pretrained(path)
    changed = open_chat(tmp_path, folder / "rows.jsonl", **options).state(1)
    assert changed != before
    shutil.rmtree(tmp_path / "cache")
    assert open_chat(tmp_path, folder / "rows.jsonl", **options).state(1) == changed


@pytest.mark.parametrize("chat", [{}, {"pack": True}])
def test_where_says_how_records_are_named(folder: Path, tmp_path: Path, chat: dict[str, Any]) -> None:
    config = write_run(folder, tmp_path / "cache", chat=chat)
    result = run("where", config, "some-id-of-a-record")
    assert result.exit_code == 2
    assert "no source has an item with this name: some-id-of-a-record; items have names such as rows" in result.stderr
    name = result.stderr.split()[-1]
    assert name.partition(":")[0] == "rows.jsonl" and name.partition(":")[2].isdecimal()
    assert run("where", config, name).exit_code == 0


def big_file(folder: Path, kind: str) -> Path:
    """Several segments of records."""
    rows = [{"prompt": f"What is {number}?", "completion": "It is sunny. " * 160} for number in range(750)]
    path = folder / f"rows.{kind}"
    path.write_bytes(KINDS[path.name](rows))
    return path


def noting(record: dict[str, Any], tokens: dict[str, str]) -> dict[str, Any]:
    """A format that notes every record that it is asked about, over all processes."""
    with open(record["notes"], "a") as notes:
        notes.write("x")
    return {"text": record["prompt"] + record["completion"]}


def noted_file(folder: Path) -> dict[str, Any]:
    """Several segments of records, as a source."""
    register("noting")(noting)
    path = folder / "noted.jsonl"
    rows = [{"prompt": f"{n}?", "completion": "sunny " * 300, "notes": str(folder / "notes")} for n in range(750)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"name": "noted", "dtype": "noting", "path": str(path)}


def extend(folder: Path, source: dict[str, Any], start: Any, found: Any) -> None:
    """In a process of its own: look for a far step when the others do, too."""
    feed = open_chat(folder, source, chat={"max_length": 1 << 20})
    start.wait()
    found.put((list(feed.lines(180)), feed.state(2)))


def build_alone(folder: Path, source: dict[str, Any], start: Any, found: Any) -> None:
    """In a process of its own: make the whole index when the others do, too, as ``penstock index`` does."""
    index = open_chat(folder, source, chat={"max_length": 1 << 20}).catalog.parts[0].reader._index
    start.wait()
    build([index], 0, lambda done, total: None)
    found.put(index.starts(0).tolist())


@pytest.mark.parametrize("target", [extend, build_alone])
def test_two_processes_make_one_index_at_once_and_look_at_each_record_once(
    target: Callable[..., None], tmp_path: Path
) -> None:
    source = noted_file(tmp_path)
    start = FORK.Barrier(2)
    found = FORK.Queue()
    both = [FORK.Process(target=target, args=(tmp_path, source, start, found)) for _ in range(2)]
    for process in both:
        process.start()
    one, other = found.get(timeout=120), found.get(timeout=120)
    for process in both:
        process.join()
    assert one == other
    assert (tmp_path / "notes").stat().st_size == 750


def test_an_index_goes_on_after_kill_9(folder: Path, tmp_path: Path) -> None:
    path = big_file(tmp_path, "json")
    options = run_keys(tmp_path, path, chat={"pack": True, "tokenizer": str(folder / "tokenizer")}, shuffle=True)
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(options))
    command = ("index", config, "--tokens", "--workers", "0")
    process = FORK.Process(target=run, args=command)
    process.start()
    cache = tmp_path / "cache"
    # The key of the tokenizer, what is kept of a segment, and its index.
    while process.is_alive() and len(list(cache.rglob("*.learnt"))) < 3:
        time.sleep(0.01)
    assert process.is_alive()
    process.kill()
    process.join()
    before = {each: each.stat().st_mtime_ns for each in cache.rglob("*.items")}
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "750 items of 750 records" in result.stdout
    after = {each: each.stat().st_mtime_ns for each in cache.rglob("*.items")}
    assert len(after) > len(before) > 0
    assert all(after[each] == written for each, written in before.items())  # not made again


@pytest.mark.long
def test_all_sources_are_indexed_at_once_by_processes_of_a_script_without_a_guard(folder: Path, tmp_path: Path) -> None:
    entries = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for number in range(70):  # more than one task has
            (tmp_path / name / f"{number:02}.jsonl").write_bytes(KINDS["rows.jsonl"](ROWS[number : number + 3]))
        entries.append({"name": name, "dtype": "conversation", "path": str(tmp_path / name / "*.jsonl")})
    keys = run_keys(tmp_path, *entries, shuffle=True)
    keys["chat"]["tokenizer"] = str(folder / "tokenizer")
    script = tmp_path / "train.py"
    script.write_text(
        "import json, sys, penstock\n"
        "from penstock.readers.records import building, smallfiles\n"
        "building._PARALLEL_BYTES = 0\n"
        "smallfiles.SmallFiles.make_missing = None  # what this process would call\n"
        "feed = penstock.open(json.load(open(sys.argv[1])))\n"
        "print(feed.batch(3)['text'])\n"
    )
    (tmp_path / "run.json").write_text(json.dumps(keys))
    command = [sys.executable, str(script), str(tmp_path / "run.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    with closing(penstock.open(keys)) as feed:
        assert str(feed.batch(3)["text"]) == done.stdout.strip()
    with closing(penstock.open({**keys, "cache": {"dir": str(tmp_path / "fresh"), "size": "1GB"}})) as fresh:
        assert fresh.catalog.parts[1].manifest.fingerprints == feed.catalog.parts[1].manifest.fingerprints
        assert str(fresh.batch(3)["text"]) == done.stdout.strip()
