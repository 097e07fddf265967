"""What differs between pipelines stays behind the seam, and modules do not import each other in a circle."""

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "penstock"
BEHIND_THE_SEAM = ("readers", "curate", "pipelines", "recipes", "media", "text", "compat", "integrations")
# Commands that prepare data, or make some for a demo.
PREPARING = ("index", "index_run", "shards", "filelist", "eval", "eval_sources", "demo", "pull")
# Not in the name of a file, such as usage.jsonl.
FORMAT = re.compile(
    r"(?<![.\w-])(tars?|tarfile|wavs?|flac|mp3|ogg|opus|jsonl|parquet|lerobot|mp4|webdataset|clips?|episodes?|cameras?)\b",
    re.IGNORECASE,
)


def outside() -> list[Path]:
    files = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in BEHIND_THE_SEAM]
    files = [path for path in files if path.parent.name != "demos"]
    return [path for path in files if not (path.parent.name == "cli" and path.stem in PREPARING)]


def test_no_module_outside_the_seam_names_a_file_format() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in outside()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FORMAT.search(line)
    ]
    assert len(outside()) > 80 and found == []


def test_the_check_would_see_one() -> None:
    assert FORMAT.search("reads tar shards") and FORMAT.search("WAV") and FORMAT.search('"parquet"')
    assert not FORMAT.search("start") and not FORMAT.search("logs/usage.jsonl") and not FORMAT.search("shard-0.tar")


# The named seam: feed.loader() returns the loader, with its ledger, that walks the feed.
SEAM = {
    ("penstock.feed.feed", "penstock.loader"),
    ("penstock.feed.feed", "penstock.observe.figures"),
    ("penstock.feed.feed", "penstock.observe.ledger"),
    ("penstock.feed.feed", "penstock.observe.losses"),
    ("penstock.feed.feed", "penstock.observe.prometheus"),
}


def imports(modules: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (importer, imported) for every import of a module of ours, also in functions and under TYPE_CHECKING.

    Args:
        modules: Source text by dotted name.
    """
    for importer, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{importer}: a relative import"
                found = [f"{node.module}.{alias.name}" for alias in node.names]
                found = [name if name in modules else str(node.module) for name in found]
            elif isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            else:
                continue
            yield from ((importer, name) for name in found if name in modules and name != importer)


def cycle(edges: set[tuple[str, str]]) -> list[str]:
    """Return modules that import each other in a circle; empty if there are none."""
    graph: dict[str, set[str]] = {}
    for importer, imported in edges:
        graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def modules() -> dict[str, str]:
    names = {path: ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in SOURCE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path.read_text() for path, name in names.items()}


def test_no_modules_import_each_other_in_a_circle_but_for_the_seam() -> None:
    edges = set(imports(modules()))
    assert len(edges) > 1_000
    assert edges >= SEAM
    assert cycle(edges - SEAM) == []


def test_the_check_would_see_a_circle() -> None:
    package = {
        "p.a": "def f():\n    from p.b import g",
        "p.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.c",
        "p.c": "from p import a",
    }
    assert set(cycle(set(imports(package)))) == {"p.a", "p.b", "p.c"}
    assert cycle(set(imports({**package, "p.c": "from p.d import e"}))) == []
