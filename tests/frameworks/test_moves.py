"""The pages of docs/moves/ are true: in an epoch, our loader gives what the other one gives, each sample once."""

import io
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest
from PIL import Image

from tests.frameworks.moves import CLIPS, MAKERS, PAGES, SAMPLES, blocks, images, plain, said
from tests.frameworks.runs import PATIENCE, environment

INDEX = (PAGES / "index.md").read_text()
LOADERS = Path(sys.prefix) / "moves"
"""Where ``make test-frameworks`` has installed the other loaders."""

PACKAGES = {
    "webdataset": ("webdataset", LOADERS / "webdataset"),
    "mosaic-streaming": ("Mosaic Streaming", LOADERS / "streaming"),
    "litdata": ("LitData", LOADERS / "litdata"),
    "datasets": ("`datasets`", Path(datasets.__file__).parent),
    "lhotse": ("Lhotse", LOADERS / "lhotse"),
}
"""Column of the table of names, and where the package lies, by page."""


def run_page(page: str, folder: Path) -> dict[str, list[Any]]:
    """Return the samples that the blocks under each heading trained on."""
    assert LOADERS.is_dir(), "the other loaders are not installed; run make test-frameworks"
    env = environment(HOME=folder)
    env["PYTHONPATH"] += f":{LOADERS}"
    command = [sys.executable, "-m", "tests.frameworks.moves", page]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    samples: dict[str, list[Any]] = json.loads((folder / "done.json").read_text())
    return samples


def check(done: dict[str, list[Any]], count: int = SAMPLES) -> None:
    before, after = sorted(done["Before"]), sorted(done["After"])
    assert before == after
    assert len(after) == count == len({json.dumps(sample) for sample in after})
    assert done["Before"] != before or done["After"] != after, "nothing is shuffled"


def test_webdataset(tmp_path: Path) -> None:
    done = run_page("webdataset", tmp_path)
    check(done)
    pictures = [[each["id"], Image.open(io.BytesIO(each["image"])).convert("RGB")] for each in images()]
    assert sorted(done["Decode and map"]) == [[name, plain(picture)] for name, picture in pictures]


@pytest.mark.parametrize("page", ["mosaic-streaming", "litdata", "datasets"])
def test_same_samples(page: str, tmp_path: Path) -> None:
    check(run_page(page, tmp_path))


def test_lhotse(tmp_path: Path) -> None:
    done = run_page("lhotse", tmp_path)
    check(done, CLIPS)
    assert sorted(done["With transcripts"]) == [[name, said(name)] for name, *_ in sorted(done["Before"])]


@pytest.mark.parametrize("page", MAKERS)
def test_a_move_takes_ten_lines(page: str) -> None:
    for heading, language, block in blocks(page):
        if heading in ("Before", "After") and language == "python":
            assert lines(block) <= 10, heading


def test_the_lines_are_counted() -> None:
    rows = re.findall(r"^\| \[.*?\]\(([\w-]+)\.md\) \| (.*?) \| (\d+) and (\d+) \|$", INDEX, re.MULTILINE)
    assert [page for page, *_ in rows] == list(MAKERS)
    for page, data, before, after in rows:
        counts = Counter[str]()
        for heading, language, block in blocks(page):
            counts[heading] += lines(block) if language == "python" else 0
        assert (int(before), int(after)) == (counts["Before"], counts["After"])
        assert [int(number) for number in re.findall(r"by (\d+) lines", data)] == [
            count for heading, count in counts.items() if heading == "Convert"
        ]


@pytest.mark.parametrize("page", PACKAGES)
def test_every_name_of_the_table_is_in_the_other_loader(page: str) -> None:
    loader, package = PACKAGES[page]
    table = names(loader)
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    theirs = " ".join(row.split(" | ")[1] for row in table.splitlines())
    found = re.findall(r"[A-Za-z_]{2,}", " ".join(re.findall("`(.*?)`", theirs)))
    assert len(found) > 15
    assert [name for name in found if not re.search(rf"\b{name}\b", source)] == []
    assert table in (PAGES / f"{page}.md").read_text(), f"its names are not those of index.md:\n{table}"


def names(loader: str) -> str:
    """Return the rows of the table of all names that one loader has, with its names and ours."""
    table = [line for line in INDEX.split("\n## Names\n")[1].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    theirs = rows[0].index(loader)
    return "".join(f"| {row[0]} | {row[theirs]} | {row[1]} |\n" for row in rows if row[theirs])


def lines(block: str) -> int:
    return sum(bool(line.strip()) for line in block.splitlines())
