"""Templates as models are published with them: what is trained, record by record, and the table of docs/labels.md."""

from pathlib import Path
from typing import Any

import pytest

from penstock.text.chattemplate import ChatTemplate
from penstock.text.errors import Rejected
from penstock.text.labels import NO_LABEL, Encoded, Encoder
from tests.text.conversations import (
    REASONING,
    SEVERAL_CALLS,
    THINKING_TAGS,
    TOOLS,
    TWICE_IN_A_ROW,
    TWO_TURNS,
    WITH_SYSTEM,
    WITH_TOOLS,
    assistant,
    call,
    system,
    tool,
    trained,
    user,
)
from tests.text.real_templates import MODELS, source, tokenizer, trl_templates

PAGE = (Path(__file__).parents[2] / "docs" / "labels.md").read_text()
ASKED = [user("Is 7 prime?"), assistant("Yes."), user("Really?"), assistant("Yes.")]
CALLED = [user("Is it sunny?"), assistant("", tool_calls=[call("get_weather", city="Paris")]), tool("yes")]
CALLS = [*CALLED, assistant("Yes.")]
MANY_STEPS = [
    system("Be brief."),
    user("Is it sunny?"),
    assistant("", reasoning_content="I look.", tool_calls=[call("get_weather", city="Paris", days=[1, 2])]),
    tool("yes"),
    assistant("", tool_calls=[call("get_weather")]),
    tool("no"),
    assistant("So.", reasoning_content="It said no."),
    user("Thank you"),
    assistant("Bye."),
]
BEGUN = [assistant("Hello"), user("Hi"), assistant("Yes.")]
CONVERSATIONS = {
    "two turns": TWO_TURNS,
    "a system message": WITH_SYSTEM,
    "a call": WITH_TOOLS,
    "several calls": SEVERAL_CALLS,
    "calls at the end": SEVERAL_CALLS[:2],
    "many steps": MANY_STEPS,
    "reasoning": REASONING,
    "thinking tags": THINKING_TAGS,
    "two answers in a row": TWICE_IN_A_ROW,
    "begun by the assistant": BEGUN,
    "a question at the end": ASKED[:3],
}


def spans(name: str, messages: list[Any], tools: Any = None) -> list[str]:
    return trained(ChatTemplate(tokenizer(name)).render({"messages": messages, "tools": tools}))


def row(name: str) -> str:
    """The line of the table for a template: what ends an answer, the last answer, and a call of a tool."""
    middle, last = (each.rpartition("Yes.")[2] for each in spans(name, ASKED))
    try:
        ended = spans(name, CALLS, TOOLS)[0].rstrip()
        tokens = [token for token in tokenizer(name).get_added_vocab() if ended.endswith(token)]
        after_call = f"`{max(tokens, key=len)}`".replace("|", "\\|")
    except Rejected:
        after_call = "calls are left out"
    ends = (f"`{end}`".replace("\n", "\\n").replace("|", "\\|") for end in (middle, last))
    return f"| {' | '.join((MODELS[name].title, *ends, after_call))} |"


@pytest.mark.parametrize("name", MODELS)
def test_the_table_of_terminators_is_what_the_template_gives(name: str) -> None:
    assert row(name) in PAGE.splitlines()


def test_the_table_has_no_other_rows() -> None:
    table = PAGE.split("## What ends a turn")[1].split("\n## ")[0]
    titles = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")]
    assert titles == ["template", *(model.title for model in MODELS.values())]


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("name", ["qwen3_5_think", "qwen3_6", "nemotron_3_nano", "nemotron_3_ultra", "glm4moe"])
def test_every_conversation_is_found(name: str, conversation: str) -> None:
    messages = CONVERSATIONS[conversation]
    found = spans(name, messages, TOOLS if "call" in conversation else None)
    answers = [message for message in messages if message["role"] == "assistant"]
    assert len(found) == len(answers)
    for said, message in zip(found, answers, strict=True):
        content = (message["content"] or "").rpartition("</think>")[2].strip()
        assert content in said and all(each["function"]["name"] in said for each in message.get("tool_calls", []))
        assert "<|im_start|>" not in said and "<|assistant|>" not in said


def test_qwen_3_5_trains_calls_from_where_its_prompt_and_the_turn_differ() -> None:
    middle, answer, last = spans("qwen3_5_think", WITH_TOOLS, TOOLS)
    assert middle.startswith("<tool_call>\n<function=get_weather>") and middle.endswith("</tool_call><|im_end|>")
    assert answer == "It is sunny.<|im_end|>"
    assert last == "\n</think>\n\nBye.<|im_end|>"


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "qwen3_5_think", "qwen3_6", "gemma4_v5", "deepseekv3"])
def test_of_a_text_the_same_is_trained_as_of_its_messages(name: str) -> None:
    template = ChatTemplate(tokenizer(name))
    written = template.render({"messages": ASKED})
    assert template.render({"text": written.text}).spans == written.spans


def test_a_text_of_qwen_3_5_without_reasoning_is_no_document() -> None:
    text = "<|im_start|>user\nIs 7 prime?<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n"
    found = ChatTemplate(tokenizer("qwen3_5_think")).render({"text": text})
    assert trained(found) == ["Yes.<|im_end|>"] and not found.document


def test_glm_4_5_trains_the_token_that_opens_the_next_turn() -> None:
    found = ChatTemplate(tokenizer("glm4moe")).render({"messages": WITH_TOOLS, "tools": TOOLS})
    called, answer, last = trained(found)
    assert called.endswith("</tool_call><|observation|>") and answer.endswith("It is sunny.<|user|>")
    assert last.endswith("Bye.<|user|>") and found.text.endswith("Bye.<|user|>")
    assert spans("glm4moe", CALLED[:2], TOOLS)[-1].endswith("</tool_call><|observation|>")


def test_glm_4_5_adds_no_stop_where_the_last_answer_is_not_trained() -> None:
    untrained = [*ASKED[:3], assistant("Yes.", train=False)]
    rendered = ChatTemplate(tokenizer("glm4moe")).render({"messages": untrained})
    assert rendered.text.endswith("\nYes.")
    asked = ChatTemplate(tokenizer("glm4moe")).render({"messages": ASKED[:3]})
    assert asked.text.endswith("Really?") and trained(asked)[-1].endswith("Yes.<|user|>")


def test_glm_4_5_does_not_stop_with_the_header_of_another_answer() -> None:
    first, second, _ = spans("glm4moe", TWICE_IN_A_ROW)
    assert first.endswith("One.") and second.endswith("Two.<|user|>")


def test_deepseek_v3_gets_arguments_as_text() -> None:
    called, answer, _ = spans("deepseekv3", WITH_TOOLS, TOOLS)
    assert '```json\n{"city": "Paris", "days": 3}\n```' in called and called.endswith("<｜end▁of▁sentence｜>")
    assert answer == "It is sunny.<｜end▁of▁sentence｜>"
    written = spans("deepseekv3", [user("Hi"), assistant("", tool_calls=[call("f", x="Größe")])])
    assert '{"x": "Größe"}' in written[0]


def test_reasoning_and_words_beside_calls_that_a_template_drops_are_named() -> None:
    def losses(name: str, messages: list[Any]) -> tuple[str, ...]:
        return ChatTemplate(tokenizer(name)).render({"messages": messages}).losses

    assert losses("deepseek_r1_distill", REASONING) == ("the chat template leaves out all reasoning",)
    assert losses("deepseek_r1_distill", THINKING_TAGS) == ("the chat template leaves out all reasoning",)
    assert losses("deepseek_r1_distill", TWO_TURNS) == ()
    assert losses("qwen3", REASONING) == ()  # it keeps that of the last answer
    assert losses("qwen3", THINKING_TAGS) == ()
    beside = [user("Is it sunny?"), assistant("I look.", tool_calls=[call("get_weather", city="Paris")]), *CALLS[2:]]
    words = ("the chat template leaves out what the assistant says beside tool calls",)
    assert losses("gptoss", beside) == words
    assert losses("gptoss", CALLS) == losses("qwen3", beside) == ()


ADDED_BY_TRL = {  # beside the newline after a turn and what the generation prompt has already
    "glm4moe": ["two answers in a row"],  # a stop of the user's between two answers
    "deepseekv3": ["several calls", "a call"],  # the end of the tools' answers
    "diffusion_gemma": ["a call", "calls at the end", "many steps"],  # TRL does not train `<|tool_response>`
}


def skip_without_variant(name: str) -> None:
    """Skips the test if a template, or TRL's variant of it with generation blocks, is not here."""
    folder = trl_templates()
    if folder is None:
        pytest.skip("needs TRL's own variants of templates: install trl 1.16.0, or set TRL_TEMPLATES to a folder of it")
    if not (folder / f"{name}_training.jinja").exists():
        pytest.skip(f"TRL has no variant of {name} with generation blocks")
    source(name)


def encoded(name: str, messages: list[Any], tools: Any) -> Encoded | None:
    made = tokenizer(name)
    try:
        [found] = Encoder(made, max_length=10_000).encode(
            [ChatTemplate(made).render({"messages": messages, "tools": tools})]
        )
    except Rejected:
        return None
    return found if isinstance(found, Encoded) else None


@pytest.mark.parametrize("name", MODELS)
def test_ids_and_labels_are_those_of_the_generation_blocks_of_trl(name: str) -> None:
    skip_without_variant(name)
    prompt = ChatTemplate(tokenizer(name))._without_tools.borders.generation_prompt
    in_prompt = set(tokenizer(name)(prompt, add_special_tokens=False).input_ids)
    in_prompt |= set(tokenizer(name)("\n", add_special_tokens=False).input_ids)
    compared = 0
    for conversation, messages in CONVERSATIONS.items():
        tools = TOOLS if "call" in conversation else None
        ours = encoded(name, messages, tools)
        theirs = encoded(f"{name}_training", messages, tools)
        if ours is None or theirs is None or ours.input_ids.tolist() != theirs.input_ids.tolist():
            continue  # left out, or TRL changed what the template writes
        if conversation in ADDED_BY_TRL.get(name, ()):
            continue
        compared += 1
        assert not ((ours.labels != NO_LABEL) & (theirs.labels == NO_LABEL)).any(), conversation
        only_theirs = (ours.labels == NO_LABEL) & (theirs.labels != NO_LABEL)
        assert set(theirs.input_ids[only_theirs].tolist()) <= in_prompt, conversation
    assert compared


def leaves_out_calls(name: str, messages: list[Any]) -> bool:
    try:
        spans(name, messages, TOOLS)
    except Rejected as refused:
        return str(refused) == "the chat template leaves out tool calls"
    return False


@pytest.mark.parametrize("name", MODELS)
def test_calls_that_a_template_leaves_out_are_left_out_with_generation_blocks_too(name: str) -> None:
    skip_without_variant(name)
    for messages in (CALLED[:2], SEVERAL_CALLS, MANY_STEPS):
        assert leaves_out_calls(f"{name}_training", messages) == leaves_out_calls(name, messages)
