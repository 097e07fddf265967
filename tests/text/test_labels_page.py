"""docs/labels.md and docs/packing.md are true: their code prints what they say, the table of templates is right."""

import re
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from penstock.text.chattemplate import ChatTemplate
from tests.text.chat_templates import CHATML, TEMPLATES
from tests.text.conversations import assistant, trained, user
from tests.text.made_tokenizers import byte_level

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "labels.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE + (DOCS / "packing.md").read_text(), re.DOTALL)


def test_the_code_of_the_page_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    byte_level(chat_template=CHATML).save_pretrained(tmp_path / "tokenizer")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    names["model"] = LlamaForCausalLM(LlamaConfig(vocab_size=1_000, **small))
    for block in BLOCKS:
        if "model(" in block:
            names.update(
                {name: torch.from_numpy(names["row"][name]) for name in ("input_ids", "position_ids", "labels")}
            )
            names["label_tokens"] = names["row"]["label_tokens"]
        exec(block, names)
    said = [re.findall(r"^(?:print\(.*\)  )?# (.*)", line) for block in BLOCKS for line in block.splitlines()]
    assert capsys.readouterr().out.splitlines() == [line for found in said for line in found]
    assert names["loss"].item() > 0


def test_the_table_of_templates_is_what_they_give() -> None:
    names = {
        "ChatML, Qwen": "qwen-2.5",
        "Llama 3": "llama-3",
        "Gemma 3": "gemma-3",
        "Mistral": "mistral",
        "gpt-oss": "gpt-oss",
    }
    names["Qwen 3, at the end"] = "qwen-3"
    table = PAGE.split("## What is trained")[1].split("\n### ")[0]
    rows = {line.split(" | ")[0].strip("| "): line for line in table.splitlines() if "`" in line}
    assert set(rows) == set(names)
    messages = [user("Is 7 prime?"), assistant("Yes."), user("Really?"), assistant("Yes.")]
    for row, name in names.items():
        tokenizer = byte_level(bos=True, chat_template=TEMPLATES[name])
        middle, last = trained(ChatTemplate(tokenizer).render({"messages": messages}))
        said = re.findall(r"`(.*?)`", rows[row])[0].replace("\\|", "|").replace("\\n", "\n")
        assert said == (last if name == "qwen-3" else middle)
