"""Formats of text that know more than a conversation: code, tools, reasoning, commits."""

from typing import Any

import pytest

from penstock.text.errors import Rejected
from penstock.text.formats import find


def reply(dtype: str, **columns: Any) -> dict[str, Any]:
    message: dict[str, Any] = dict(find(dtype)(columns, {})["messages"][-1])
    return message


def test_code_in_a_column_of_its_own_gets_a_fence() -> None:
    assert reply("code", instruction="a", output="b")["content"] == "```python\nb\n```"
    assert reply("code", prompt="a", code="b\n", lang="rust")["content"] == "```rust\nb\n```"
    assert reply("code", instruction="a", output="So:\n```\nb\n```")["content"] == "So:\n```\nb\n```"
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert reply("code", messages=turns)["content"] == "b"


def test_text_may_be_the_task_of_code() -> None:
    assert find("code")({"text": "Add.", "code": "a + b"}, {})["messages"][0]["content"] == "Add."


def test_an_answer_that_reads_as_calls_is_calls() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    for answer in ('[{"name": "f", "arguments": {"a": 1}}]', {"name": "f", "arguments": '{"a": 1}'}):
        message = reply("tool_use", query="a", answers=answer)
        assert message == {"role": "assistant", "content": "", "tool_calls": [call]}


@pytest.mark.parametrize("answer", ["It is noon.", "42", "null", '{"temperature": 20}', "f(1)"])
def test_an_answer_that_does_not_is_a_text(answer: str) -> None:
    assert reply("tool_use", query="a", response=answer) == {"role": "assistant", "content": answer}


def test_no_call_at_all_is_no_answer() -> None:
    with pytest.raises(Rejected, match=r"^no answer$"):
        reply("tool_use", query="a", answers="[]")


def test_reasoning_comes_before_the_answer() -> None:
    for column in ("reasoning", "rationale", "Complex_CoT", "reasoning_content"):
        message = reply("chain_of_thought", question="a", answer="b", **{column: "hm"})
        assert (message["content"], message["reasoning_content"]) == ("b", "hm")
    assert "reasoning_content" not in reply("conversation", question="a", answer="b", reasoning="Descriptive")


def test_a_solution_is_learnt_rather_than_its_result() -> None:
    assert reply("chain_of_thought", problem="a", answer="4", solution="2 + 2 = 4")["content"] == "2 + 2 = 4"
    assert reply("conversation", problem="a", answer="4", solution="2 + 2 = 4")["content"] == "4"


def test_a_commit_is_asked_for_by_its_subject() -> None:
    sample = find("git")({"old_contents": "", "new_contents": "b\n", "subject": "Add b", "lang": "C"}, {})
    assert [message["content"] for message in sample["messages"]] == ["Add b", "```C\nb\n```"]
