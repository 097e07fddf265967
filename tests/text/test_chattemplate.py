"""Chat templates: the text of apply_chat_template, and what is trained of it, in the shapes of well-known templates."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.config.errors import ConfigError
from penstock.text.chattemplate import ChatTemplate
from penstock.text.errors import Rejected
from penstock.text.trained import SpansNotFound
from penstock.text.trained.jinja import TODAY
from tests.text.chat_templates import CHATML, DEEPSEEK_R1, GEMMA_3, LLAMA_3, MERGING, QWEN_2_5, QWEN_3, TEMPLATES
from tests.text.conversations import (
    REASONING,
    SEVERAL_CALLS,
    THINKING_TAGS,
    TOOLS,
    TWICE_IN_A_ROW,
    TWO_TURNS,
    WITH_SYSTEM,
    WITH_TOOLS,
    Message,
    assistant,
    call,
    system,
    tool,
    trained,
    user,
)
from tests.text.made_tokenizers import byte_level

CALL = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'
QWEN_CALL = f"<tool_call>\n{CALL}\n</tool_call><|im_end|>"
GPT_OSS_CALL = (
    ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris", "days": 3}<|call|>'  # no header
)
SAID_FIRST = "<think>\n2, 3 do not divide it.\n</think>\n\nYes."
SAID_LAST = "<think>\n3 times 3.\n</think>\n\nNo."
FINAL = "<|channel|>final<|message|>"

# By template: what is trained of TWO_TURNS, THINKING_TAGS, REASONING, and of WITH_TOOLS where the template has tools.
EXPECTED: dict[str, list[list[str] | None]] = {
    "chatml": [
        [" An assistant.\n<|im_end|>", "Bye.<|im_end|>"],
        [f"{SAID_FIRST}<|im_end|>", f"{SAID_LAST}<|im_end|>"],
        ["Yes.<|im_end|>", "No.<|im_end|>"],
        None,
    ],
    "zephyr": [
        [" An assistant.\n</s>", "Bye.</s>"],
        [f"{SAID_FIRST}</s>", f"{SAID_LAST}</s>"],
        ["Yes.</s>", "No.</s>"],
        None,
    ],
    "llama-3": [
        ["An assistant.<|eot_id|>", "Bye.<|eot_id|>"],
        [f"{SAID_FIRST}<|eot_id|>", f"{SAID_LAST}<|eot_id|>"],
        ["Yes.<|eot_id|>", "No.<|eot_id|>"],
        [CALL.replace("arguments", "parameters") + "<|eot_id|>", "It is sunny.<|eot_id|>", "Bye.<|eot_id|>"],
    ],
    "qwen-2.5": [
        [" An assistant.\n<|im_end|>", "Bye.<|im_end|>"],
        [f"{SAID_FIRST}<|im_end|>", f"{SAID_LAST}<|im_end|>"],
        ["Yes.<|im_end|>", "No.<|im_end|>"],
        [QWEN_CALL, "It is sunny.<|im_end|>", "Bye.<|im_end|>"],
    ],
    "qwen-3": [
        [" An assistant.\n<|im_end|>", "<think>\n\n</think>\n\nBye.<|im_end|>"],
        ["Yes.<|im_end|>", f"{SAID_LAST}<|im_end|>"],
        ["Yes.<|im_end|>", f"{SAID_LAST}<|im_end|>"],
        [QWEN_CALL, "It is sunny.<|im_end|>", "<think>\n\n</think>\n\nBye.<|im_end|>"],
    ],
    "gemma-3": [
        ["An assistant.<end_of_turn>", "Bye.<end_of_turn>"],
        [f"{SAID_FIRST}<end_of_turn>", f"{SAID_LAST}<end_of_turn>"],
        ["Yes.<end_of_turn>", "No.<end_of_turn>"],
        None,
    ],
    "mistral": [
        [" An assistant.</s>", " Bye.</s>"],
        [f" {SAID_FIRST}</s>", f" {SAID_LAST}</s>"],
        [" Yes.</s>", " No.</s>"],
        [f"[TOOL_CALLS] [{CALL}]</s>", " It is sunny.</s>", " Bye.</s>"],
    ],
    "gpt-oss": [
        [f"{FINAL} An assistant.\n<|end|>", f"{FINAL}Bye.<|return|>"],
        [f"{FINAL}{SAID_FIRST}<|end|>", f"{FINAL}{SAID_LAST}<|return|>"],
        [
            f"{FINAL}Yes.<|end|>",
            f"<|channel|>analysis<|message|>3 times 3.<|end|><|start|>assistant{FINAL}No.<|return|>",
        ],
        [GPT_OSS_CALL, f"{FINAL}It is sunny.<|end|>", f"{FINAL}Bye.<|return|>"],
    ],
    "deepseek-r1": [
        [" An assistant.\n<｜end▁of▁sentence｜>", "Bye.<｜end▁of▁sentence｜>"],
        ["\n\nYes.<｜end▁of▁sentence｜>", "\n\nNo.<｜end▁of▁sentence｜>"],
        ["Yes.<｜end▁of▁sentence｜>", "No.<｜end▁of▁sentence｜>"],
        None,
    ],
    "merging": [
        ["An assistant.</assistant>", "Bye.</assistant>"],
        [f"{SAID_FIRST}</assistant>", f"{SAID_LAST}</assistant>"],
        ["Yes.</assistant>", "No.</assistant>"],
        None,
    ],
    "plain": [
        [" An assistant.\n", " Bye.\n"],
        [f" {SAID_FIRST}\n", f" {SAID_LAST}\n"],
        [" Yes.\n", " No.\n"],
        None,
    ],
}


def template(source: str, **options: Any) -> ChatTemplate:
    return ChatTemplate(byte_level(bos=True, chat_template=source), **options)


def applied(source: str, messages: list[Message], tools: Any = None) -> str:
    """The text of transformers, with the date as it is for us."""
    source = re.sub(r'strftime_now\("(.*?)"\)', lambda call: f'"{TODAY.strftime(call[1])}"', source)
    messages = [{**message, "content": message["content"] or ""} for message in messages]
    return str(byte_level(bos=True, chat_template=source).apply_chat_template(messages, tools=tools, tokenize=False))


@pytest.mark.parametrize("name", TEMPLATES)
def test_trained_is_what_the_model_writes_after_the_generation_prompt(name: str) -> None:
    made = template(TEMPLATES[name])
    conversations = [(TWO_TURNS, None), (THINKING_TAGS, None), (REASONING, None), (WITH_TOOLS, TOOLS)]
    for (messages, tools), expected in zip(conversations, EXPECTED[name], strict=True):
        if expected is not None:
            rendered = made.render({"messages": messages, "tools": tools})
            assert trained(rendered) == expected
            assert rendered.text == applied(TEMPLATES[name], messages, tools)
            assert not rendered.bos


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_system_text_changes_nothing_of_what_is_trained(name: str) -> None:
    rendered = template(TEMPLATES[name]).render({"messages": WITH_SYSTEM})
    assert trained(rendered) == EXPECTED[name][0]
    assert rendered.text == applied(TEMPLATES[name], WITH_SYSTEM) and "Be brief." in rendered.text
    assert template(TEMPLATES[name]).render({"messages": TWO_TURNS}, system="Be brief.") == rendered


@pytest.mark.parametrize("source", [QWEN_2_5, QWEN_3])
def test_several_calls_in_a_turn_are_trained_together(source: str) -> None:
    first, last = trained(template(source).render({"messages": SEVERAL_CALLS, "tools": TOOLS}))
    assert first.startswith("Let me see.\n<tool_call>\n") and first.count("</tool_call>") == 2
    assert first.endswith("\n</tool_call><|im_end|>") and last.endswith("In Paris.<|im_end|>")


@pytest.mark.parametrize("name", ["chatml", "gpt-oss"])
def test_a_template_that_leaves_out_tool_calls_rejects_the_record(name: str) -> None:
    with pytest.raises(Rejected, match="leaves out tool calls"):
        template(TEMPLATES[name]).render({"messages": SEVERAL_CALLS, "tools": TOOLS})


def test_turns_that_a_template_merges_are_one_turn() -> None:
    rendered = template(MERGING).render({"messages": TWICE_IN_A_ROW})
    assert (
        rendered.text
        == "<user>Hi</user><assistant>One.\n\nTwo.</assistant><user>Thank you</user><assistant>Bye.</assistant>"
    )
    assert "".join(trained(rendered)) == "One.\n\nTwo.</assistant>Bye.</assistant>"
    assert trained(template(CHATML).render({"messages": TWICE_IN_A_ROW})) == [
        "One.<|im_end|>",
        "Two.<|im_end|>",
        "Bye.<|im_end|>",
    ]


def test_the_last_turn_everything_and_weights() -> None:
    assert trained(template(CHATML, train_on="last").render({"messages": TWO_TURNS})) == ["Bye.<|im_end|>"]
    whole = template(CHATML, train_on="all").render({"messages": TWO_TURNS})
    assert trained(whole) == [whole.text]
    made = [user("a", train=True), assistant("b", weight=0.5), user("c"), assistant("d", train=False)]
    rendered = template(CHATML).render({"messages": made})
    assert trained(rendered) == ["a<|im_end|>", "b<|im_end|>"] and [span.weight for span in rendered.spans] == [1, 0.5]
    everything = template(CHATML, train_on="all").render({"messages": [user("a", train=False), assistant("b")]})
    assert trained(everything) == ["<|im_start|>user\n", "\n<|im_start|>assistant\nb<|im_end|>\n"]


@pytest.mark.parametrize("content", [" \nHi ", "\n\n", "</think> Hi", "\t<think>Hi</think>"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_message_of_the_user_is_trained_from_its_first_character_on(name: str, content: str) -> None:
    made = [user(content, train=True, weight=0.5), assistant("Yes.", train=False)]
    [half] = template(TEMPLATES[name]).render({"messages": made}).spans
    rendered = template(TEMPLATES[name], train_on="all").render({"messages": made})
    said = content.strip() if name in ("llama-3", "gemma-3", "merging", "plain") else content
    assert rendered.text[half.start : half.end].startswith(said)
    assert not rendered.text[: half.start].endswith(said) or not said
    assert half in rendered.spans and rendered.spans[0] == (0, half.start, 1.0)


@pytest.mark.parametrize("name", ["gemma-3", "mistral"])
def test_a_system_text_in_the_turn_of_the_user_has_a_weight_of_its_own(name: str) -> None:
    made = [system("Be brief.", train=True, weight=0.5), user("Hi"), assistant("Yes.")]
    rendered = template(TEMPLATES[name]).render({"messages": made})
    said, answer = trained(rendered)
    assert said == "Be brief." and answer.startswith(("Yes.", " Yes.")) and rendered.spans[0].weight == 0.5


@pytest.mark.parametrize("name", ["gemma-3", "mistral"])
def test_whitespace_after_a_system_text_in_the_turn_of_the_user_belongs_to_the_system_text(name: str) -> None:
    made = template(TEMPLATES[name])
    for asked, said in (("\nHi", "Be brief."), ("Hi", "Be brief.\n"), ("Hi", "Be brief. \n\n"), ("Hi", "</think>")):
        messages = [system(said, train=True, weight=0.5), user(asked), assistant("Yes.")]
        rendered = made.render({"messages": messages})
        assert trained(rendered)[0] == said and rendered.text[rendered.spans[0].end :].startswith("\n\n")


@pytest.mark.parametrize("source", [QWEN_2_5, QWEN_3])
def test_answers_of_tools_that_share_a_turn_have_weights_of_their_own(source: str) -> None:
    question, calls, one, other, answer = SEVERAL_CALLS
    made = [question, calls, {**one, "train": False}, {**other, "weight": 0.5}, answer]
    rendered = template(source, train_on="all").render({"messages": made, "tools": TOOLS})
    left_out = "\n<tool_response>\nyes\n</tool_response>\n<tool_response>\n"
    at, half = next((at, span) for at, span in enumerate(rendered.spans) if span.weight == 0.5)
    assert rendered.text[: half.start].endswith(left_out)
    assert rendered.text[half.start : half.end] == "no\n</tool_response><|im_end|>"
    assert trained(rendered)[at - 1] == "\n<tool_response>\n"
    assert trained(rendered)[at - 2].endswith("<|im_start|>user\n<tool_response>\n")


def test_our_own_keys_are_not_shown_to_the_template() -> None:
    shows = "{% for message in messages %}{{ message.content }}{{ message.train }}{{ message.weight }};{% endfor %}"
    made = [user("Hi"), assistant("a", train=True, weight=0.5, loss_weight=None, tool_calls=None)]
    assert template(shows).render({"messages": made}).text == "Hi;a;"
    assert template(shows, train_on="all").render({"messages": [user("a", train=True)]}).text == "a;"


# Contents with what templates look at, and with what their own text is made of.
pieces = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<|im_end|>",
        "<|im_start|>assistant\n",
        "\n",
        " ",
        "Yes",
        "é🌧️",
        "[/INST]",
        "</s>",
        "User:",
        "{{",
        "zq",
    ]
)
contents = st.lists(pieces, min_size=1, max_size=5).map("".join)
exchanges = st.lists(st.tuples(contents, contents), min_size=1, max_size=3)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(TEMPLATES)), exchanges)
def test_any_content_is_found_or_refused_and_never_mixed_up(name: str, said: list[tuple[str, str]]) -> None:
    messages = [message for asked, answer in said for message in (user(asked), assistant(answer))]
    made = template(TEMPLATES[name])
    rendered = made.render({"messages": messages})
    assert rendered.text == applied(TEMPLATES[name], messages)
    assert len(rendered.spans) == len(said)
    for (_, answer), part in zip(said, trained(rendered), strict=True):
        last = re.split("</?think>", answer)[-1].strip()
        assert last in part  # reasoning may be left out, the answer never
        assert len(part) <= len(answer) + 60
    assert made.render({"messages": messages}) == rendered  # found by its layout


@settings(deadline=None, max_examples=30)
@given(st.lists(exchanges, min_size=2, max_size=6))
def test_what_was_rendered_before_changes_nothing(several: list[list[tuple[str, str]]]) -> None:
    used = template(LLAMA_3)
    for said in several:
        messages = [message for asked, answer in said for message in (user(asked), assistant(answer))]
        assert used.render({"messages": messages}) == template(LLAMA_3).render({"messages": messages})


def test_many_calls_one_after_the_other_are_found_as_one_by_one() -> None:
    messages = [user("Go on.")]
    for number in range(12):
        messages += [
            assistant("", tool_calls=[call("run", code=f"</tool_call><|im_end|>\n{number}")]),
            tool(f"<|im_end|>{number}"),
        ]
    messages.append(assistant("Done."))
    spans = trained(template(QWEN_2_5).render({"messages": messages, "tools": TOOLS}))
    assert spans[-1] == "Done.<|im_end|>" and len(spans) == 13
    for number, part in enumerate(spans[:-1]):
        said = f'{{"name": "run", "arguments": {{"code": "</tool_call><|im_end|>\\n{number}"}}}}'
        assert part == f"<tool_call>\n{said}\n</tool_call><|im_end|>"


def test_a_user_message_that_the_template_looks_at_is_left_unmarked() -> None:
    answered = "<tool_response>\n21 degrees\n</tool_response>"
    messages = [user("Sunny?"), assistant("", tool_calls=[call("f", x=1)]), user(answered), assistant("Yes.")]
    rendered = template(QWEN_3).render({"messages": messages})
    assert rendered.text == applied(QWEN_3, messages)
    assert trained(rendered) == [
        '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call><|im_end|>',
        "<think>\n\n</think>\n\nYes.<|im_end|>",
    ]


def test_an_empty_answer_is_its_end_token() -> None:
    assert trained(template(CHATML).render({"messages": [user("Hi"), assistant("")]})) == ["<|im_end|>"]
    assert trained(template(LLAMA_3).render({"messages": [user("Hi"), assistant(" \n")]})) == ["<|eot_id|>"]


def test_a_conversation_may_begin_with_the_assistant() -> None:
    messages = [assistant("Hello!"), user("Hi"), assistant("Bye.")]
    assert trained(template(CHATML).render({"messages": messages})) == ["Hello!<|im_end|>", "Bye.<|im_end|>"]
    end = "<｜end▁of▁sentence｜>"
    assert trained(template(DEEPSEEK_R1).render({"messages": messages})) == [f"Hello!{end}", f"Bye.{end}"]
    with pytest.raises(Rejected, match="begins with the assistant, and the chat template shows no header"):
        template(LLAMA_3).render({"messages": messages, "tools": TOOLS})  # it takes the first turn for the user's


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - {"gpt-oss", "plain"}))
def test_a_text_is_trained_between_header_and_end(name: str) -> None:
    made = template(TEMPLATES[name])
    text = made.render({"messages": TWO_TURNS}).text
    ready = made.render({"text": text})
    assert trained(ready) == EXPECTED[name][0] and ready.bos
    assert trained(made.render({"text": "def f(): pass"})) == ["def f(): pass"]


def test_a_date_whose_format_is_computed_is_refused() -> None:
    with pytest.raises(ConfigError, match="batches would depend on the day: write the date into the template"):
        template("{% set form = '%Y' %}{{ strftime_now(form) }}" + CHATML)


def test_a_text_is_left_out_where_the_ends_of_its_turns_are_not_known() -> None:
    for name, reason in (("plain", "ends turns without a token"), ("gpt-oss", "has no end token")):
        made = template(TEMPLATES[name])
        with pytest.raises(Rejected, match=reason):
            made.render({"text": made.render({"messages": TWO_TURNS}).text})
        assert trained(made.render({"text": "def f(): pass"})) == ["def f(): pass"]


def test_a_text_shows_its_turns_also_where_the_template_has_no_generation_prompt() -> None:
    made = template("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
    text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n"
    assert trained(made.render({"text": text})) == ["Yes.<|im_end|>"]


def test_parts_are_for_templates_that_take_them() -> None:
    seen = [
        user([{"type": "image"}, {"type": "text", "text": " What is it?"}]),
        assistant([{"type": "text", "text": "Rain."}]),
    ]
    rendered = template(GEMMA_3).render({"messages": seen})
    assert "<start_of_turn>user\n<start_of_image>What is it?<end_of_turn>\n" in rendered.text
    assert trained(rendered) == ["Rain.<end_of_turn>"]
    said = [user([{"type": "text", "text": "Hi, "}, {"type": "text", "text": "you."}]), assistant("Bye.")]
    assert "user\nHi, you.<|im_end|>" in template(CHATML).render({"messages": said}).text
    with pytest.raises(ConfigError, match="takes text only, and a sample has image"):
        template(CHATML).render({"messages": seen})


PARTS_ONLY = """{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}{% for part in message.content %}
{%- if part.type == 'image' %}<image>{% elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}
{{- '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


MEDIA_FIRST = """{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}\
{% for part in message.content if part.type == 'image' %}<image>{% endfor %}\
{% for part in message.content if part.type == 'text' %}{{ part.text }}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.mark.parametrize(("source", "place"), [(GEMMA_3, "<start_of_image>"), (MEDIA_FIRST, "<image>")])
def test_media_are_where_the_template_writes_them_and_are_never_trained(source: str, place: str) -> None:
    template = ChatTemplate(byte_level(chat_template=source))
    image = {"type": "image"}
    messages = [
        user([{"type": "text", "text": "This?"}, image, image]),
        assistant([{"type": "text", "text": "Like this:"}, image]),
    ]
    rendered = template.render({"messages": messages})
    assert [rendered.text[start:end] for _, start, end in rendered.media] == [place] * 3
    trained = "".join(rendered.text[span.start : span.end] for span in rendered.spans)
    assert trained.startswith("Like this:") and place not in trained
    with pytest.raises(Rejected, match="2 placeholders"):
        template.render({"messages": [user([image, {"type": "text", "text": place}]), assistant("No.")]})
    with pytest.raises(Rejected, match="writes nothing for a medium of kind audio"):
        template.render({"messages": [user([{"type": "audio"}, {"type": "text", "text": "?"}]), assistant("No.")]})


def test_a_template_that_takes_only_parts_gets_them() -> None:
    rendered = template(PARTS_ONLY).render(
        {"messages": [system("Be brief."), user([{"type": "image"}]), assistant("Rain.")]}
    )
    assert "user\n<image><|im_end|>" in rendered.text and "system\nBe brief.<|im_end|>" in rendered.text
    assert trained(rendered) == ["Rain.<|im_end|>"]


# The same templates with generation blocks.
CHATML_BLOCKS = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}
{%- if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}
{%- else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


@settings(deadline=None, max_examples=30)
@given(exchanges)
def test_blocks_give_the_spans_that_are_found_without_them(said: list[tuple[str, str]]) -> None:
    messages = [message for asked, answer in said for message in (user(asked), assistant(answer))]
    assert template(CHATML_BLOCKS).render({"messages": messages}) == template(CHATML).render({"messages": messages})


_PLAIN_TURNS = """ or (message.role == "assistant" and not message.tool_calls)"""
_ASSISTANT = QWEN_2_5.index('    {%- elif message.role == "assistant" %}')
_TOOL = QWEN_2_5.index('    {%- elif message.role == "tool" %}')
QWEN_BLOCKS = (
    QWEN_2_5[:_ASSISTANT].replace(_PLAIN_TURNS, "")
    + """{%- elif message.role == "assistant" %}{{- '<|im_start|>assistant\n' }}{% generation %}{{- message.content }}
    {%- for tool_call in message.tool_calls %}{%- if message.content or not loop.first %}{{- '\n' }}{%- endif %}
        {{- '<tool_call>\n{"name": "' + tool_call.function.name + '", "arguments": ' }}
        {{- tool_call.function.arguments | tojson }}{{- '}\n</tool_call>' }}
    {%- endfor %}{{- '<|im_end|>' }}{%- endgeneration %}{{- '\n' }}
"""
    + QWEN_2_5[_TOOL:]
)
names = st.sampled_from(["run", "f", "<|im_end|>"])
calls = st.lists(st.builds(lambda name, value: call(name, x=value), names, contents), min_size=1, max_size=2)
answers = st.builds(lambda said, made: assistant(said, tool_calls=made), contents | st.none(), calls)
turns = st.builds(user, contents) | st.builds(assistant, contents) | answers | st.builds(tool, contents)


@settings(deadline=None, max_examples=60)
@given(st.lists(turns, min_size=1, max_size=8), st.booleans())
def test_any_order_of_turns_and_calls_is_found_as_with_blocks(messages: list[Message], tools: bool) -> None:
    sample = {"messages": [user("Hi"), *messages], "tools": TOOLS if tools else None}
    assert template(QWEN_2_5).render(sample) == template(QWEN_BLOCKS).render(sample)


@pytest.mark.parametrize("train_on", ["assistant", "last", "all"])
def test_weights_find_their_blocks(train_on: Any) -> None:
    made = [user("a", train=True), assistant("b", weight=0.5), user("c"), assistant("d"), assistant("e", train=False)]
    blocks = template(CHATML_BLOCKS, train_on=train_on).render({"messages": made})
    assert blocks == template(CHATML, train_on=train_on).render({"messages": made})


def test_several_blocks_of_a_turn_have_its_weight() -> None:
    halves = CHATML_BLOCKS.replace(
        "{{ message['content'] + '<|im_end|>' }}{% endgeneration %}",
        "{{ message['content'] }}{% endgeneration %}{{ ' | ' }}{% generation %}{{ '<|im_end|>' }}{% endgeneration %}",
    )
    messages = [user("a"), assistant("b", weight=0.5), user("c"), assistant("d")]
    rendered = template(halves).render({"messages": messages})
    assert trained(rendered) == ["b", "<|im_end|>", "d", "<|im_end|>"]
    assert [span.weight for span in rendered.spans] == [0.5, 0.5, 1, 1]


# Marks in an empty message change what this template writes, so that only messages that are trained get some.
SKIPS_EMPTY = CHATML_BLOCKS.replace("in messages %}", "in messages if message['content'] %}")
EMPTY_SYSTEM = [system(""), user("a"), assistant("b"), user("c"), assistant("d")]


def test_turns_that_are_not_trained_are_not_where_marks_show_only_the_others() -> None:
    last = template(SKIPS_EMPTY, train_on="last").render({"messages": EMPTY_SYSTEM})
    assert trained(last) == ["d<|im_end|>"]
    first = template(SKIPS_EMPTY).render({"messages": [*EMPTY_SYSTEM[:4], assistant("d", train=False)]})
    assert trained(first) == ["b<|im_end|>"]


def test_blocks_that_may_belong_to_several_messages_reject_the_record() -> None:
    halves = SKIPS_EMPTY.replace(
        "+ '<|im_end|>' }}{% endgen", "}}{% endgeneration %}{% generation %}{{ '.' }}{% endgen"
    )
    with pytest.raises(SpansNotFound, match="do not show which message each belongs to"):
        template(halves, train_on="last").render({"messages": EMPTY_SYSTEM})


@pytest.mark.parametrize("messages", [SEVERAL_CALLS, SEVERAL_CALLS[:2], WITH_TOOLS])
def test_blocks_that_leave_out_tool_calls_reject_the_record(messages: list[Message]) -> None:
    with pytest.raises(Rejected, match="leaves out tool calls"):
        template(CHATML_BLOCKS).render({"messages": messages, "tools": TOOLS})


def test_blocks_may_leave_out_tool_calls_that_are_not_trained() -> None:
    made = [user("a"), assistant("b", tool_calls=[call("f")], train=False), tool("c"), assistant("d")]
    assert trained(template(CHATML_BLOCKS).render({"messages": made})) == ["d<|im_end|>"]


def test_blocks_with_tool_calls_are_trained_also_where_marks_change_what_is_written() -> None:
    looked = QWEN_BLOCKS.replace("{% generation %}", "{% generation %}{{- message.tool_calls[0].function.name[0] }}")
    made = [user("a"), assistant("b", tool_calls=[call("f")])]
    [found] = trained(template(looked).render({"messages": made}))
    assert found.startswith("fb\n<tool_call>") and found.endswith("</tool_call><|im_end|>")


def test_blocks_that_hold_no_turn_are_an_error() -> None:
    never = CHATML.replace("{% endfor %}", "{% if false %}{% generation %}{% endgeneration %}{% endif %}{% endfor %}")
    with pytest.raises(SpansNotFound, match="hold nothing of a message") as raised:
        template(never).render({"messages": TWO_TURNS})
    assert raised.value.where == "message 2"


def test_threads_may_share_a_template_with_blocks() -> None:
    made = template(CHATML_BLOCKS)
    conversations = [[user(f"{n}"), assistant("Yes. " * n)] for n in range(40)]
    with ThreadPoolExecutor(4) as threads:
        several = list(threads.map(lambda messages: made.render({"messages": messages}), conversations * 5))
    assert several == [made.render({"messages": messages}) for messages in conversations] * 5


def test_another_template_for_tools_is_used_with_tools() -> None:
    tokenizer = byte_level(chat_template={"default": CHATML, "tool_use": QWEN_2_5})
    made = ChatTemplate(tokenizer)
    assert trained(made.render({"messages": WITH_TOOLS, "tools": TOOLS}))[0] == QWEN_CALL
    assert made.render({"messages": TWO_TURNS}) == template(CHATML).render({"messages": TWO_TURNS})


def test_a_template_travels_to_another_process() -> None:
    made = template(LLAMA_3)
    assert pickle.loads(pickle.dumps(made)).render({"messages": TWO_TURNS}) == made.render({"messages": TWO_TURNS})


def test_the_date_is_always_the_same() -> None:
    assert "Today Date: 01 Jan 2026" in template(LLAMA_3).render({"messages": TWO_TURNS}).text


def test_a_message_that_a_template_leaves_out_is_an_error() -> None:
    last_only = (
        "{% for message in messages[-2:] %}{{ '<' + message.role + '>' + message.content + '</s>' }}{% endfor %}"
    )
    with pytest.raises(SpansNotFound, match="leaves out a message that is to be trained") as raised:
        template(last_only).render({"messages": TWO_TURNS})
    assert raised.value.where == "message 2"


def test_a_turn_of_which_a_template_writes_nothing_rejects_the_record() -> None:
    silent = [user("Hi"), assistant("", reasoning_content="Let me see."), user("So?"), assistant("Yes.")]
    with pytest.raises(Rejected, match="writes no text"):
        template(CHATML).render({"messages": silent})
    with pytest.raises(Rejected, match="writes no text"):
        template(GEMMA_3).render({"messages": [user("Draw."), assistant([{"type": "image"}])]})


def test_records_whose_turns_are_not_found_are_counted_by_one_phrase() -> None:
    headless = "{% for message in messages %}{{ message.content }}{% endfor %}"
    found = set()
    for said in ("No.", "Never."):
        with pytest.raises(Rejected) as raised:
            template(headless).render({"messages": [user("Hi"), assistant("Yes."), tool(said)]})
        found.add(str(raised.value))
    assert len(found) == 1 and "{% generation %}" in found.pop()


def test_the_error_travels_to_another_process() -> None:
    error = SpansNotFound("it hides its turns", "message 2")
    travelled = pickle.loads(pickle.dumps(error))
    assert str(travelled) == str(error) and travelled.where == error.where


def test_a_template_that_hides_its_turns_is_an_error() -> None:
    shouts = "{% for message in messages %}{{ message.role + ':' + message.content | upper }};{% endfor %}"
    with pytest.raises(SpansNotFound, match=r"\{% generation %\} and \{% endgeneration %\} around what the assistant"):
        template(shouts).render({"messages": TWO_TURNS})
    counts = "{% for message in messages %}{{ message.content }} {{ message.content | length }}</s>{% endfor %}"
    with pytest.raises(SpansNotFound, match="depends on how a message begins or ends"):
        template(counts).render({"messages": TWO_TURNS})


def test_a_template_that_refuses_a_conversation_rejects_it() -> None:
    with pytest.raises(Rejected, match="refused by the chat template: Conversation roles must alternate"):
        template(GEMMA_3).render({"messages": TWICE_IN_A_ROW})
    with pytest.raises(Rejected, match="refused by the chat template"):
        template(LLAMA_3).render({"messages": []})


@pytest.mark.parametrize("expression", ["1 // 0", "message.content.index('no')", "'%d' % message.content"])
def test_a_template_that_fails_on_a_conversation_rejects_it(expression: str) -> None:
    failing = CHATML.replace(
        "{% endfor %}", "{% if message.content == 'fail' %}{{ " + expression + " }}{% endif %}{% endfor %}"
    )
    with pytest.raises(Rejected, match="refused by the chat template"):
        template(failing).render({"messages": [user("fail"), assistant("Yes.")]})
    assert template(failing).render({"messages": [user("Hi"), assistant("Yes.")]}).spans


def test_a_text_with_our_marks_is_rejected() -> None:
    with pytest.raises(Rejected, match="the text contains a mark"):
        template(CHATML).render({"messages": [user("zqo0x0oqz"), assistant("Yes.")]})


@pytest.mark.parametrize(("source", "match"), [(None, "has no chat template"), ("{% for %}", "chat template.*line 1")])
def test_no_template_and_a_wrong_one_are_errors_at_the_start(source: str | None, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        ChatTemplate(byte_level(chat_template=source))


@pytest.mark.parametrize("written", ["'' + tool.function.arguments", "tool.function.arguments"])
def test_arguments_are_text_where_a_template_does_not_take_a_dict(written: str) -> None:
    calls = "{% for tool in message.tool_calls %}{{ tool.function.name + ' ' }}{{ " + written + " }}{% endfor %}"
    calling = CHATML.replace("+ message['content'] +", "}}" + calls + "{{ message['content'] +")
    found = trained(template(calling).render({"messages": WITH_TOOLS}))
    assert found[0] == 'get_weather {"city": "Paris", "days": 3}<|im_end|>'


def test_a_turn_that_only_calls_has_no_content_where_a_template_would_write_an_empty_answer() -> None:
    twice = """{% for message in messages %}
{%- if message.tool_calls %}{{ '<|im_start|>assistant\n' + (message.tool_calls | tojson) + '<|im_end|>\n' }}{% endif %}
{%- if message.content is not none %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
    called, answer, _ = trained(template(twice).render({"messages": WITH_TOOLS}))
    assert called.count("<|im_end|>") == 1 and answer == "It is sunny.<|im_end|>"
