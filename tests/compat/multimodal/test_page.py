"""The page about the class is true: its example runs, and it names every argument."""

import inspect
import json
import re
from pathlib import Path

import pytest

from penstock.compat.multimodal import TrueStreamingDataset
from penstock.compat.multimodal.entries import _KNOWN

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "multimodal.md").read_text()


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    [example] = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import json" in block]
    exec(compile(example, "multimodal.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["torch.Size([2, 128]) ['code', 'code']"] * 4
    state = json.loads((tmp_path / "state.json").read_text())
    assert (state["epoch"], state["dataset_positions"]) == (1, {"tasks": 4})


def test_the_page_names_every_argument_and_every_key_of_an_entry() -> None:
    tables = "".join(re.findall(r"^\| `(.*?)` \|", PAGE, re.MULTILINE))
    for name in [*inspect.signature(TrueStreamingDataset).parameters, *_KNOWN]:
        if name != "local":  # is explained with the path
            assert name in tables, name


def test_tests_that_the_page_names_are_there() -> None:
    here = Path(__file__).parent
    for name in re.findall(r"`(test_\w+\.py)`", (DOCS / "coming-from.md").read_text()):
        assert (here / name).exists()
