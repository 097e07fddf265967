"""docs/chat.md is true: its run is valid, its example runs, and the configuration page lists every key."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from torch.nn.functional import cross_entropy

from penstock.cli.demos.chat_data import make_chat_data
from penstock.config import make_config
from penstock.pipelines import PIPELINES
from penstock.pipelines.chat_options import ChatOptions, ChatSource

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "chat.md").read_text()


def test_the_run_is_valid() -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    config = make_config(yaml.safe_load(block), PIPELINES, folder=Path())
    assert [entry.name for entry in config.sources] == ["dolly", "tools", "photos"]


def test_the_example_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(list(make_chat_data(tmp_path / "demo-data" / "chat"))) == 4
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec(example.replace("workers=2", "threads=2"), found)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(" ", 1)[0] for line in lines] == [f"{step} torch.Size([4, 256])" for step in range(3)]
    state = found["state"]
    assert isinstance(state, dict) and state["step"] == 3


@pytest.mark.parametrize("labels", [[-100, 3, 1, -100], [-100] * 4])
def test_the_loss_is_the_mean_over_labels_and_zero_without_any(labels: list[int]) -> None:
    _, example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    logits = torch.nn.Embedding(5, 5)
    batch = {"input_ids": torch.tensor([[4, 3, 1, 0]]), "labels": torch.tensor([labels])}
    batch["global_label_tokens"] = (batch["labels"] != -100).sum()

    def model(ids: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=logits(ids))

    found = {"model": model, "batch": batch, "world": 1, "cross_entropy": cross_entropy}
    exec(example, found)
    mean = cross_entropy(logits(batch["input_ids"][0, :-1]), batch["labels"][0, 1:])
    torch.testing.assert_close(found["loss"], mean.nan_to_num())


def test_the_configuration_page_lists_every_key() -> None:
    section = (DOCS / "configuration.md").read_text().split("\n## Chat\n")[1].split("\n## ")[0]
    columns = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = [key for column in columns for key in re.findall(r"`(\w+)`", column)]
    assert sorted(listed) == sorted([*ChatSource.model_fields, *ChatOptions.model_fields])
