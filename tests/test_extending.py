"""Pipelines of one's own go through the feed, the cache, both loaders and all commands.

One is that of docs/extending.md, as it stands there. The groups of the other lie in two objects each (tests/pairs.py).
"""

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.feed import Feed
from penstock.feed.lookup import Lookup
from penstock.pipelines import BasePipeline
from penstock.pipelines.pipeline import Indexing, Part, optional_methods
from penstock.store.cache.cache import NodeCache
from tests.cli.commands import run
from tests.conftest import S3Prefix
from tests.pairs import PairKeys, PairPipeline, PairReader
from tests.servers.faultproxy import FaultProxy

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text()
COUNTS = {"a.jsonl": 30, "b.jsonl": 17, "c.jsonl": 23}
BATCH = 4
PART = 256


PIPELINES = {"lines": "captions:CaptionPipeline", "pairs": "tests.pairs:PairPipeline"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the module of the page and captions for both pipelines, one of which is none."""
    home = tmp_path_factory.mktemp("home")
    module, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in module.splitlines() if line.strip()]) < 110
    (home / "captions.py").write_text(module)
    (home / "captions").mkdir()
    for name, count in COUNTS.items():
        texts = [f"{name} number {number}" for number in range(count)]
        lines = [json.dumps({"text": text}) for text in texts]
        if name == "b.jsonl":
            texts[5] = ""
            lines[5] = '{"caption": "?"}'
        (home / "captions" / name).write_text("".join(f"{line}\n" for line in lines))
        (home / "captions" / f"{name}.data").write_text("".join(texts))
        (home / "captions" / f"{name}.index").write_text(json.dumps(list(accumulate(map(len, texts), initial=0))))
    yield home
    sys.modules.pop("captions", None)
    if str(home) in sys.path:
        sys.path.remove(str(home))


@pytest.fixture(params=[(kind, where) for kind in PIPELINES for where in ("folder", "bucket")], ids="-".join)
def config(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Path:
    """The run's YAML, beside the module; a bucket is reached through the proxy and a cache of small parts."""
    kind, where = request.param
    source: dict[str, Any] = {"name": "web", "store": str(home / "captions")}
    if kind == "lines":
        source |= {"files": list(COUNTS)}
    else:
        source |= {"names": list(COUNTS), "counts": list(COUNTS.values())}
    if where == "bucket":
        s3: S3Prefix = request.getfixturevalue("s3")
        proxy: FaultProxy = request.getfixturevalue("proxy")
        for path in (home / "captions").iterdir():
            s3.put(path.name, path.read_bytes())
        source |= {"store": s3.url, "remote": {"endpoint": proxy.url, "region": "us-east-1"}}
    NodeCache(tmp_path / "cache", 10**6, part_bytes=PART).close()
    keys = {
        "pipelines": {kind: PIPELINES[kind]},
        "recipe": kind,
        "global_batch_size": BATCH,
        "pool": 2,
        "seed": 3,
        "sources": [source],
        "cache": {"dir": str(tmp_path / "cache"), "size": "1MB"},
        "usage": {"log": str(tmp_path / "usage.jsonl"), "every": 5, "ids": True},
    }
    path = home / f"{tmp_path.name}.yaml"
    path.write_text(yaml.safe_dump(keys))
    return path


def opened(config: Path, **options: Any) -> Feed:
    return penstock.open(config, rank=0, world=1, **options)


def plain(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in batch.items()}


def test_batches_hold_what_the_plan_says_and_bad_lines_are_replaced(config: Path) -> None:
    feed = opened(config)
    bad = []
    for step in range(40):
        batch = feed.batch(step)
        texts = [f"{line.group} number {line.item.removeprefix('line-')}" for line in feed.lines(step)]
        wrong = {each.slot for each in batch["bad"]}
        assert [text for slot, text in enumerate(batch["texts"]) if slot not in wrong] == [
            text for slot, text in enumerate(texts) if slot not in wrong
        ]
        assert batch["letters"].tolist() == list(map(len, batch["texts"])) and batch["sources"] == ["web"] * BATCH
        bad += [(each.group, each.id, each.reason) for each in batch["bad"]]
    assert set(bad) == {("b.jsonl", "line-5", "this line holds no caption")}


@pytest.mark.parametrize(("threads", "workers"), [(0, 0), (3, 0), (None, 2)])
def test_loaders_walk_it_note_it_and_resume_at_every_step(config: Path, threads: int | None, workers: int) -> None:
    whole = [plain(opened(config).batch(step)) for step in range(24)]
    with opened(config).loader(threads=threads, workers=workers) as loader:
        first = [plain(batch) for batch in islice(loader, 9)]
        state = json.loads(json.dumps(loader.state_dict()))
    with opened(config).loader(threads=threads, workers=workers) as loader:
        loader.load_state_dict(state)
        rest = [plain(batch) for batch in islice(loader, 15)]
    assert first + rest == whole
    log = yaml.safe_load(config.read_text())["usage"]["log"]
    done = run("usage", log, "--check", config)
    assert done.exit_code == 0 and "✓" in done.output, done.output
    for step in range(24):
        feed = opened(config)
        assert feed.resume(feed.state(step)) == step and plain(feed.batch(step)) == whole[step]


def test_a_dataloader_gives_the_same(config: Path) -> None:
    from torch.utils.data import DataLoader

    whole = [plain(opened(config).batch(step)) for step in range(8)]
    for workers in (0, 2):
        feed = opened(config)
        batches = DataLoader(feed, batch_size=None, sampler=feed.steps(), num_workers=workers)
        assert [plain(batch) for batch in islice(batches, 8)] == whole


def test_commands_speak_of_it(config: Path, tmp_path: Path) -> None:
    feed = opened(config)
    batch = feed.batch(3)
    planned = run("plan", config, "--steps", "3", "--json")
    lines = [json.loads(line) for line in planned.stdout.splitlines()]
    assert [line["item"] for line in lines] == [line.item for line in feed.lines(3)]
    item = f"{lines[0]['group']}:{lines[0]['item']}"
    uses = run("where", config, item, "--json")
    assert [json.loads(line)["step"] for line in uses.stdout.splitlines()] == [3]
    done = run("replay", config, "--steps", "3", "-o", tmp_path / "seen")
    assert done.exit_code == 0, done.output
    seen = sorted((tmp_path / "seen").rglob("*.txt"))
    assert [path.read_text() for path in seen] == batch["texts"]


def fetched(feed: Feed, step: int) -> bool:
    """Whether all that a step wants, once nothing more is to be learnt, is in the cache."""
    lookup = Lookup(feed.plan, feed.catalog, 0, 1, feed.timeline(1), penstock.Steps(step, step + 1))
    for extent in feed.catalog.wants(lookup.at(step).shares):
        store: Any = extent.unit.store
        blob = store.open(extent.unit.path)
        missing = blob.missing(extent.start, blob.size if extent.end is None else extent.end)
        blob.close()
        if missing or extent.end is None:
            return False
    return True


@pytest.mark.parametrize("config", [(kind, "bucket") for kind in PIPELINES], indirect=True, ids="-".join)
def test_what_a_step_needs_is_fetched_before_it_and_no_part_twice(config: Path, proxy: FaultProxy) -> None:
    feed = opened(config, prefetch={"steps": 4})
    walk = feed.walk(penstock.Steps(0))
    for step in range(40):
        walk.batch(step)
        until = time.monotonic() + 30
        while not fetched(feed, step + 1) and time.monotonic() < until:
            time.sleep(0.01)
        assert fetched(feed, step + 1), "in the background, also where an index must come first"
    seen = [(request.key, request.start) for request in proxy.log("GET")]
    assert len(seen) == len(set(seen))
    walk.close()
    feed.close()


@pytest.mark.parametrize("config", [(kind, "bucket") for kind in PIPELINES], indirect=True, ids="-".join)
def test_warming_fetches_all_that_the_steps_read(config: Path, proxy: FaultProxy) -> None:
    done = run("warm", config, "--steps", "9")
    assert done.exit_code == 0 and "steps 0 to 8" in done.output, done.output
    feed = opened(config)
    proxy.clear()
    for step in range(9):
        feed.batch(step)
    assert proxy.log("GET") == []
    feed.close()


def test_a_pipeline_that_can_not_be_found_is_named(home: Path) -> None:
    for path, message in (
        ("nowhere:Pipeline", "pipelines.mine: 'nowhere:Pipeline' cannot be imported: No module named 'nowhere'"),
        ("json:Pipeline", "pipelines.mine: the module json has no Pipeline"),
        ("json", "pipelines.mine: expected 'module:Class', not 'json'"),
        (".near:Pipeline", "pipelines.mine: '.near:Pipeline' cannot be imported"),
        ("pathlib:Path", "pipelines.mine: PosixPath('.') is not a pipeline: it has no options, source, recipe"),
        ("functools:partial", "pipelines.mine: 'functools:partial' cannot be instantiated"),
        (3, "pipelines.mine: 3 is not a pipeline"),
    ):
        with pytest.raises(penstock.ConfigError, match=re.escape(message)):
            penstock.open({"pipelines": {"mine": path}, "recipe": "mine", "batch_size": 1})


@pytest.mark.parametrize("name", ["step", "ids", "rows", "seed", "filelist", "sources"])
def test_a_name_that_means_something_else_is_refused(name: str) -> None:
    with pytest.raises(penstock.ConfigError, match=rf"pipelines\.{name}: this name is taken"):
        penstock.open({"pipelines": {name: "tests.pairs:PairPipeline"}, "recipe": name, "batch_size": 1})


def test_a_pipeline_need_not_find_learn_or_join_anything() -> None:
    optional = optional_methods(PairPipeline())
    assert not (optional.indexes or optional.keeps_tokens or optional.joins)
    assert optional.resolve(PairKeys(names=[], counts=[])) is None


def test_optional_methods_are_those_of_a_class_that_declares_them() -> None:
    class Finding(PairPipeline, BasePipeline[PairKeys, Any]):
        def resolve(self, source: PairKeys) -> list[str]:
            return source.names

    assert optional_methods(Finding()).resolve(PairKeys(names=["a"], counts=[1])) == ["a"]


class JoinedPairs(PairPipeline, BasePipeline[PairKeys, Any]):
    """Inherits, and overrides: no attribute says so once more."""

    def index(self, source: PairKeys, recipe: Any, context: penstock.Context, how: Indexing) -> str:
        return f"{len(source.names)} names"

    def join(self, recipe: Any, parts: Sequence[Part]) -> None:
        raise penstock.ConfigError(f"{len(parts)} part does not fit")


def test_a_method_that_is_overridden_is_called(home: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    options = {"pipelines": {"pairs": "tests.test_extending:JoinedPairs"}, "recipe": "pairs", "batch_size": 1}
    source = {"store": str(home / "captions"), "names": ["a.jsonl"], "counts": [COUNTS["a.jsonl"]]}
    config.write_text(yaml.safe_dump({**options, **source, "cache": {"dir": str(tmp_path / "cache"), "size": "1MB"}}))
    indexed = run("index", config)
    assert indexed.exit_code == 2 and "pairs: 1 names" in indexed.output and "1 part does not fit" in indexed.output
    with pytest.raises(penstock.ConfigError, match="1 part does not fit"):
        penstock.open(config)


def test_an_optional_method_that_is_not_declared_is_an_error_that_says_what_to_do() -> None:
    class Finding(PairPipeline):
        def resolve(self, source: PairKeys) -> list[str]:
            return source.names

    advice = "the pipeline Finding has the optional method `resolve`, which is only called if the class inherits from"
    with pytest.raises(penstock.ConfigError, match=f"{advice} penstock.pipelines.BasePipeline"):
        optional_methods(Finding())


class CountingReader(PairReader):
    counted = True

    def counts(self, uses: penstock.Uses) -> dict[str, Any]:
        return {"letters": uses.row}


class CountingPairs(PairPipeline):
    def open(self, source: PairKeys, needs: Any, context: penstock.Context) -> tuple[penstock.Manifest, PairReader]:
        manifest, _ = super().open(source, needs, context)
        return manifest, CountingReader(context.opener(source), source.names, source.counts)


def test_a_reader_with_an_undeclared_method_is_refused_in_one_line(home: Path, tmp_path: Path) -> None:
    source = {"name": "web", "store": str(home / "captions"), "names": ["a.jsonl"], "counts": [COUNTS["a.jsonl"]]}
    message = "sources: web: the reader CountingReader has the optional method `counts`, which is only called if"
    with pytest.raises(penstock.ConfigError, match=message):
        penstock.open(pipelines={"pairs": CountingPairs()}, recipe="pairs", batch_size=1, sources=[source])
