"""The pages of docs/ are true: what they name is there, configs are valid, the state and the rooms are real ones."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import penstock
from penstock.config import make_config
from penstock.observe.ledger import KEYS
from penstock.pipelines import PIPELINES
from penstock.pipelines.speech import SpeechOptions
from penstock.plan.rounds import Rounds
from tests.feed.made import entry, made_run
from tests.shards import small_run, write_shards

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "penstock"
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
ARCHITECTURE = PAGES["architecture.md"]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
def test_every_link_and_file_that_a_page_names_is_there(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGES[name])
    files = re.findall(r"`((?:tests|benchmarks|examples|config)/[\w./-]*)`", PAGES[name])
    assert [link for link in links if not (DOCS / name).parent.joinpath(link).exists()] == []
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("name", [name for name in PAGES if name != "index.md" and not name.startswith("api/")])
def test_every_page_starts_with_what_the_reader_has_from_it(name: str) -> None:
    title, text, *_ = PAGES[name].split("\n\n")
    assert title.startswith("# ") and text.startswith("After this ")


def test_every_module_that_the_architecture_names_is_there() -> None:
    rooms = "|".join(path.name for path in PACKAGE.iterdir() if path.is_dir())
    named = set(re.findall(rf"\b(?:{rooms})/[\w/]*(?:\.py)?", ARCHITECTURE))
    assert len(named) > 25
    assert sorted(path for path in named if not (PACKAGE / path).exists()) == []


def imports(room: str) -> set[str]:
    """The other rooms that a room imports, also inside functions."""
    path = PACKAGE / room
    found = set()
    for file in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found |= {name.split(".")[1] for name in names if name.startswith("penstock.")}
    return found - {room}


def test_rooms_import_what_the_picture_says() -> None:
    picture = next(block for block in re.findall(r"```\n(.*?)```", ARCHITECTURE, re.DOTALL) if "imports" in block)
    rows = [re.split(r"\s{2,}", line.strip()) for line in picture.splitlines()[2:]]
    listed = [room for room, _, _ in rows]
    for number, (room, _, said) in enumerate(rows):
        below = set(listed[number + 1 :])
        given = set() if said == "nothing" else set(said.removeprefix("all but ").split(", "))
        given = below - given if said.startswith("all but ") else given
        way_back = {"loader", "observe"} if room == "feed" else set()
        assert imports(room) - way_back == given, room
        assert given <= below, room


def test_configs_are_valid() -> None:
    names = ("configuration.md", "speech.md", "buckets.md", "mixing.md", "looking.md")
    pages = {name: blocks(name, "yaml") for name in names}
    single, rounds, several, own = pages["configuration.md"]
    checked = make_config(yaml.safe_load(several), PIPELINES, folder=Path())
    assert [entry.recipe for entry in checked.sources] == ["speech", "speech", "raw"]
    make_config(yaml.safe_load(single), PIPELINES, folder=Path())
    capped = make_config(yaml.safe_load(rounds), PIPELINES, folder=Path()).rounds
    assert capped is not None and (capped.max_per_epoch, capped.max_per_source, capped.repeat) == (2000, 100, 2)
    for block in pages["speech.md"]:
        make_config(yaml.safe_load(block), PIPELINES, folder=Path())
    for block in [*pages["buckets.md"], *pages["mixing.md"], *pages["looking.md"]]:
        given = yaml.safe_load(block)
        data = {} if "sources" in given else {"filelist": "train.tsv"}
        make_config({**given, **data, "batch_size": 1}, PIPELINES, folder=Path())
    assert set(yaml.safe_load(own)) == {"pipelines", "recipe", "captions"}


def test_the_configuration_page_lists_every_key_of_speech() -> None:
    section = PAGES["configuration.md"].split("\n## The section of a recipe\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted(SpeechOptions.model_fields)


def test_the_table_of_stages_is_what_its_example_makes() -> None:
    [example] = [block for block in blocks("mixing.md", "yaml") if "until" in block]
    run = made_run(entry("web", 5), entry("studio", 5), **yaml.safe_load(example))
    rows = [f"| {at:,} | {100 * studio // (web + studio)}% |" for at, (web, studio) in run.identity.mixture]
    assert "\n".join(["|---|---|", *rows]) in PAGES["mixing.md"]


def test_the_example_of_rounds_is_what_rounds_draw() -> None:
    [example] = re.findall(r"```\n(round 0.*?)```", PAGES["plan.md"], re.DOTALL)
    source, nth, _ = Rounds([3, 1, 4]).draws(np.arange(11))
    drawn = [f"{'ABC'[each]}{number}" for each, number in zip(source.tolist(), nth.tolist(), strict=True)]
    assert re.findall(r"\b[ABC]\d\b", example) == drawn


def test_every_logger_is_listed() -> None:
    loggers = set()
    for path in PACKAGE.rglob("*.py"):
        for name in re.findall(r"getLogger\((.*?)\)", path.read_text()):
            module = ".".join(["penstock", *path.relative_to(PACKAGE).with_suffix("").parts])
            loggers.add(module if name == "__name__" else name.strip('"'))
    listed = re.findall(r"^\| `(penstock[\w.]*)` \|", PAGES["logging.md"], re.MULTILINE)
    assert set(listed) == loggers - {"penstock"}


def shape(value: Any) -> Any:
    return {key: shape(each) for key, each in value.items()} if isinstance(value, dict) else type(value).__name__


def test_the_state_is_one_as_the_feed_writes_it(tmp_path: Path) -> None:
    write_shards(tmp_path)
    keys = {key: value for key, value in small_run(tmp_path).items() if key != "batch_size"}
    real = penstock.open({**keys, "global_batch_size": 16}, rank=0, world=1).state(25)
    [shown] = [json.loads(block) for block in blocks("resume.md", "json")]
    assert shape(shown) == shape(real) and (shown["step"], shown["samples"]) == (real["step"], real["samples"])


def test_the_ledgers_keys_are_those_that_are_written() -> None:
    table = ARCHITECTURE.split("## The ledger")[1].split("## Glossary")[0]
    keys = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(keys))) == KEYS | {"ids"}
