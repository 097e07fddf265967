"""docs/trained-text.md is true: its code prints what it says, its picture is what a tokenizer gives, modules exist."""

import re
from pathlib import Path

import pytest

import penstock.text.trained
from penstock.text import ChatTemplate, Encoder
from penstock.text.labels import NO_LABEL
from tests.text.chat_templates import CHATML
from tests.text.conversations import assistant, user
from tests.text.made_tokenizers import byte_level

PAGE = (Path(__file__).parents[2] / "docs" / "trained-text.md").read_text()


def test_the_code_of_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", block)


def test_the_picture_shows_the_text_its_tokens_and_its_labels() -> None:
    tokenizer = byte_level(chat_template=CHATML)
    rendered = ChatTemplate(tokenizer).render({"messages": [user("Is 7 prime?"), assistant("Yes.")]})
    [encoded] = Encoder(tokenizer, max_length=99).encode([rendered])
    lengths = [len(tokenizer.decode([token])) for token in encoded.input_ids]
    trained = (encoded.labels != NO_LABEL).tolist()
    rows = dict(re.findall(r"^(text|spans|tokens|labels) +?(?<=.{8})(.*)", PAGE, re.MULTILINE))
    assert rows["text"] == rendered.text.replace("\n", "⏎")
    assert rows["tokens"] == "".join("├" + "─" * (length - 1) for length in lengths)
    assert rows["labels"] == "".join(("#" if own else "·") * n for n, own in zip(lengths, trained, strict=True))
    [span] = rendered.spans
    assert (rows["spans"].index("└"), rows["spans"].index("┘") + 1) == (span.start, span.end)


def test_every_module_is_described() -> None:
    folder = Path(penstock.text.trained.__file__).parent
    modules = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"^\| `(\w+\.py)`", PAGE, re.MULTILINE)) == modules
