"""Records that a chat template can't show: left out and counted, with what to do; what it leaves out is said."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from penstock.feed.feed import Feed
from penstock.manifest.errors import ManifestError
from tests.pipelines.chat_sources import open_chat
from tests.text.chat_templates import CHATML
from tests.text.conversations import REASONING, TWO_TURNS
from tests.text.made_tokenizers import byte_level
from tests.text.real_templates import tokenizer

# Writes the length of what is said, from two answers on: no mark can be put into those.
HIDING = CHATML.replace(
    "'<|im_end|>'", "(message['content'] | length | string if messages | length > 2 else '') + '<|im_end|>'"
)
HIDDEN = (
    "the chat template hides what is trained: what it writes depends on how a message begins or ends (put "
    "{% generation %} and {% endgeneration %} around what the assistant says in the template, or use chat.tokens "
    "instead of it)"
)


def opened(folder: Path, conversations: list[Any], made: Any) -> Feed:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in conversations))
    source = {"name": "mine", "dtype": "conversation", "path": str(path)}
    return open_chat(folder, source, shuffle=True, chat={"tokenizer": made})


def test_records_whose_spans_are_not_found_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        feed = opened(tmp_path, [TWO_TURNS[:2], TWO_TURNS, TWO_TURNS[:2]], byte_level(chat_template=HIDING))
    assert feed.batch(0)["labels"].max() > 0
    assert caplog.messages == [f"source 'mine': 1 of 3 records are left out: 1 × {HIDDEN}"]


def test_a_source_of_which_nothing_is_left_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as raised:
        opened(tmp_path, [TWO_TURNS] * 3, byte_level(chat_template=HIDING))
    assert str(raised.value) == f"source 'mine': none of its 3 records can be used: 3 × {HIDDEN}"


def test_reasoning_that_a_template_drops_is_in_the_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        opened(tmp_path, [TWO_TURNS, REASONING, REASONING], tokenizer("deepseek_r1_distill"))
    assert caplog.messages == ["source 'mine': 2 × the chat template leaves out all reasoning"]
