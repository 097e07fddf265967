"""Labels, token by token, with fast tokenizers of several kinds."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from penstock.config.errors import ConfigError
from penstock.text.chattemplate import ChatTemplate
from penstock.text.errors import Rejected
from penstock.text.labels import NO_LABEL, Encoded, Encoder, pad_id_of
from penstock.text.rendered import Medium, Rendered, TextSpan
from penstock.text.templates import TokensTemplate
from penstock.text.texts import Texts
from tests.text.chat_templates import CHATML, LLAMA_3, MISTRAL, QWEN_2_5, QWEN_3, TEMPLATES
from tests.text.conversations import REASONING, TOOLS, TWO_TURNS, WITH_TOOLS, assistant, trained, user
from tests.text.made_tokenizers import byte_level, spaces_in_words, whole_words

KINDS: dict[str, Callable[..., Any]] = {"bytes": byte_level, "spaces": spaces_in_words, "words": whole_words}
IMAGE = {"image_start": "<start_of_image>", "image_end": "</s>"}
CHATML_TOKENS = {f"{role}_start": f"<|im_start|>{role}\n" for role in ("system", "user", "assistant")}
CHATML_TOKENS |= {f"{role}_end": "<|im_end|>" for role in ("system", "user", "assistant")} | IMAGE


def encoded(encoder: Encoder, rendered: Rendered) -> Encoded:
    [made] = encoder.encode([rendered])
    assert isinstance(made, Encoded)
    return made


def rejected(encoder: Encoder, rendered: Rendered) -> str:
    [made] = encoder.encode([rendered])
    assert isinstance(made, Rejected)
    return str(made)


def labelled(tokenizer: Any, made: Encoded) -> list[str]:
    """The tokens that have a label; each label is its token."""
    where = made.labels != NO_LABEL
    assert (made.labels[where] == made.input_ids[where]).all()
    return list(tokenizer.convert_ids_to_tokens(made.input_ids[where].tolist()))


def by_offsets(tokenizer: Any, rendered: Rendered) -> list[int]:
    """Labels from all offsets of the tokenizer, token by token."""
    made = tokenizer(rendered.text, return_offsets_mapping=True, add_special_tokens=False)
    return [
        token if number and any(span.start <= start < span.end for span in rendered.spans) else NO_LABEL
        for number, (token, (start, _)) in enumerate(zip(made["input_ids"], made["offset_mapping"], strict=True))
    ]


def test_a_conversation_token_by_token() -> None:
    tokenizer = whole_words(chat_template=CHATML)
    made = encoded(Encoder(tokenizer, max_length=99), ChatTemplate(tokenizer).render({"messages": TWO_TURNS}))
    tokens = tokenizer.convert_ids_to_tokens(made.input_ids.tolist())
    assert " ".join(tokens) == (
        "<|im_start|> user <unk> , <unk> are you ? <|im_end|> <|im_start|> assistant <unk> assistant . <|im_end|> "
        "<|im_start|> user thank you <|im_end|> <|im_start|> assistant <unk> . <|im_end|>"
    )
    asked, said, thanked, answered = [0] * 9, [0, 0, 1, 1, 1, 1], [0] * 5, [0, 0, 1, 1, 1]
    turns = [*asked, *said, *thanked, *answered]
    expected = [token if learnt else NO_LABEL for token, learnt in zip(made.input_ids, turns, strict=True)]
    assert made.labels.tolist() == expected and made.loss_weights is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_ids_are_those_of_transformers_and_labels_those_of_its_offsets(name: str, kind: str) -> None:
    tokenizer = KINDS[kind](chat_template=TEMPLATES[name], bos_token="<s>")
    rendered = ChatTemplate(tokenizer).render({"messages": TWO_TURNS})
    made = encoded(Encoder(tokenizer, max_length=999), rendered)
    assert made.input_ids.tolist() == tokenizer(rendered.text, add_special_tokens=False)["input_ids"]
    assert made.labels.tolist() == by_offsets(tokenizer, rendered)
    decoded = tokenizer.decode(made.input_ids[made.labels != NO_LABEL].tolist()) if kind == "bytes" else None
    assert decoded in (None, "".join(trained(rendered)))


@pytest.mark.parametrize("name", ["chatml", "qwen-3"])
def test_ids_are_those_of_apply_chat_template(name: str) -> None:
    tokenizer = byte_level(bos=True, chat_template=TEMPLATES[name])
    made = encoded(Encoder(tokenizer, max_length=999), ChatTemplate(tokenizer).render({"messages": TWO_TURNS}))
    assert made.input_ids.tolist() == tokenizer.apply_chat_template(TWO_TURNS)["input_ids"]


def test_labels_are_transformers_own_mask_where_the_template_has_blocks() -> None:
    blocks = CHATML.replace(
        "+ message['content'] + '<|im_end|>' + '\n' }}",
        "}}{% if message.role == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}"
        "{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}",
    )
    tokenizer = byte_level(chat_template=blocks)
    theirs = tokenizer.apply_chat_template(TWO_TURNS, return_assistant_tokens_mask=True)
    made = encoded(Encoder(tokenizer, max_length=999), ChatTemplate(tokenizer).render({"messages": TWO_TURNS}))
    assert made.input_ids.tolist() == theirs["input_ids"]
    assert (made.labels != NO_LABEL).astype(int).tolist() == theirs["assistant_masks"]


@pytest.mark.parametrize(
    ("source", "messages", "tools"),
    [(QWEN_2_5, WITH_TOOLS, TOOLS), (LLAMA_3, WITH_TOOLS, TOOLS), (QWEN_3, REASONING, None)],
)
def test_tools_and_reasoning_are_labelled(source: str, messages: list[Any], tools: Any) -> None:
    tokenizer = byte_level(chat_template=source, bos_token="<s>")
    rendered = ChatTemplate(tokenizer).render({"messages": messages, "tools": tools})
    made = encoded(Encoder(tokenizer, max_length=9999), rendered)
    assert tokenizer.decode(made.input_ids[made.labels != NO_LABEL].tolist()) == "".join(trained(rendered))


def test_a_word_with_the_space_before_it_is_trained() -> None:
    tokenizer = spaces_in_words(chat_template=MISTRAL, bos_token="<s>")
    rendered = ChatTemplate(tokenizer).render({"messages": [user("Thank you"), assistant("It is sunny.")]})
    assert rendered.text == "<s>[INST] Thank you[/INST] It is sunny.</s>"
    words = labelled(tokenizer, encoded(Encoder(tokenizer, max_length=99), rendered))
    assert "".join(words) == "▁It▁is▁sunny.</s>"


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(5, 15, " you words"), (6, 15, " words"), (9, 15, " words"), (5, 9, " you"), (5, 11, " you words")],
)
def test_a_token_is_trained_if_it_begins_inside_the_span(start: int, end: int, expected: str) -> None:
    tokenizer = byte_level()
    assert tokenizer.tokenize("Thank you words") == ["Thank", "Ġyou", "Ġwords"]
    made = encoded(Encoder(tokenizer, max_length=99), Rendered("Thank you words", (TextSpan(start, end),), bos=False))
    assert tokenizer.decode(made.input_ids[made.labels != NO_LABEL].tolist()) == expected


spans = st.lists(st.integers(0, 60), min_size=2, max_size=6, unique=True).map(sorted)
words = st.sampled_from(["a", " ", "\n", "words", "東", "🌧️", "é", "<|im_end|>", "\t", "sunny"])
texts = st.lists(words, min_size=1, max_size=20).map("".join)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(sorted(KINDS)), texts, spans)
@example("words", " ", [0, 1])  # no token at all
def test_labels_of_any_spans_are_those_of_the_offsets(kind: str, text: str, borders: list[int]) -> None:
    tokenizer = made_once(kind)
    pairs = zip(borders[::2], borders[1::2], strict=False)
    found = tuple(TextSpan(start, min(end, len(text))) for start, end in pairs if start < min(end, len(text)))
    rendered = Rendered(text, found, bos=False)
    expected = by_offsets(tokenizer, rendered)
    [made] = Encoder(tokenizer, max_length=999).encode([rendered])
    if set(expected) <= {NO_LABEL}:
        assert isinstance(made, Rejected)
    else:
        assert isinstance(made, Encoded) and made.labels.tolist() == expected


def made_once(kind: str) -> Any:
    if kind not in _made:
        _made[kind] = KINDS[kind]()
    return _made[kind]


_made: dict[str, Any] = {}


def test_many_texts_are_encoded_as_one_by_one() -> None:
    tokenizer = byte_level(bos=True)
    encoder = Encoder(tokenizer, max_length=40)
    template = TokensTemplate(CHATML_TOKENS)
    several = [template.render({"messages": [user("Hi" * n), assistant("words " * n)]}) for n in range(20)]
    several += [Rendered(each.text, each.spans, bos=False) for each in several]
    together = encoder.encode(several)
    for rendered, made in zip(several, together, strict=True):
        [alone] = encoder.encode([rendered])
        assert isinstance(made, Encoded) == isinstance(alone, Encoded)
        if isinstance(made, Encoded) and isinstance(alone, Encoded):
            assert made.input_ids.tolist() == alone.input_ids.tolist() and made.labels.tolist() == alone.labels.tolist()


def test_threads_may_share_an_encoder() -> None:
    encoder = Encoder(byte_level(), max_length=999)
    several = [Rendered("words " * n, (TextSpan(0, 6 * n),), bos=False) for n in range(2, 30)]
    with ThreadPoolExecutor(4) as threads:
        batches = list(threads.map(encoder.encode, [several] * 8))
    lengths = [[len(made) for made in batch if isinstance(made, Encoded)] for batch in batches]
    assert lengths == [lengths[0]] * 8 and len(lengths[0]) == len(several)


# BOS and what else a tokenizer adds.


@pytest.mark.parametrize("kind", ["tokens", "ready", "chat"])
def test_there_is_one_bos(kind: str) -> None:
    tokenizer = byte_level(bos=True, chat_template=LLAMA_3)
    sample = {"messages": TWO_TURNS}
    rendered = {
        "tokens": TokensTemplate(CHATML_TOKENS).render(sample),
        "ready": TokensTemplate(CHATML_TOKENS).render({"text": "<s><|im_start|>assistant\nYes.<|im_end|>"}),
        "chat": ChatTemplate(tokenizer).render(sample),
    }[kind]
    ids = encoded(Encoder(tokenizer, max_length=999), rendered).input_ids.tolist()
    assert ids.index(tokenizer.bos_token_id) == 0 and ids.count(tokenizer.bos_token_id) == 1


def test_a_chat_template_without_bos_gets_none() -> None:
    tokenizer = byte_level(bos=True, chat_template=CHATML)
    made = encoded(Encoder(tokenizer, max_length=999), ChatTemplate(tokenizer).render({"messages": TWO_TURNS}))
    assert tokenizer.bos_token_id not in made.input_ids


def test_an_end_that_the_tokenizer_adds_is_trained_with_the_end_of_the_text() -> None:
    from tokenizers import processors

    tokenizer = byte_level(bos_token="<s>")
    ends = [("<s>", 0), ("</s>", tokenizer.eos_token_id)]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=ends
    )
    encoder = Encoder(tokenizer, max_length=99)
    whole = encoded(encoder, Rendered("Thank you", (TextSpan(0, 9),)))
    assert whole.labels.tolist() == [NO_LABEL, *whole.input_ids[1:]] and whole.input_ids[-1] == tokenizer.eos_token_id
    begun = encoded(encoder, Rendered("Thank you", (TextSpan(0, 5),)))
    assert begun.labels[-1] == NO_LABEL and begun.labels[1] != NO_LABEL


def test_the_first_token_has_no_label() -> None:
    made = encoded(Encoder(byte_level(), max_length=99), Rendered("words words", (TextSpan(0, 11),), bos=False))
    assert made.labels.tolist() == [NO_LABEL, *made.input_ids[1:]]


# Too long.


def test_a_cut_keeps_the_beginning() -> None:
    tokenizer = byte_level(chat_template=CHATML)
    rendered = ChatTemplate(tokenizer).render({"messages": TWO_TURNS})
    whole = encoded(Encoder(tokenizer, max_length=999), rendered)
    for length in range(1, len(whole) + 2):
        [made] = Encoder(tokenizer, max_length=length).encode([rendered])
        kept = whole.labels[:length]
        if (kept == NO_LABEL).all():
            assert isinstance(made, Rejected) and str(made) == f"nothing to train on in the first {length} tokens"
        else:
            assert isinstance(made, Encoded)
            assert (
                made.input_ids.tolist() == whole.input_ids[:length].tolist() and made.labels.tolist() == kept.tolist()
            )


def test_a_long_sample_may_be_dropped() -> None:
    tokenizer = byte_level()
    rendered = Rendered("words " * 30, (TextSpan(0, 180),), bos=False)
    length = len(encoded(Encoder(tokenizer, max_length=999), rendered))
    assert len(encoded(Encoder(tokenizer, max_length=length, too_long="drop"), rendered)) == length
    assert (
        rejected(Encoder(tokenizer, max_length=length - 1, too_long="drop"), rendered)
        == f"more than {length - 1} tokens"
    )


def images_between_answers() -> Rendered:
    said = [
        user([{"type": "image"}]),
        assistant("words"),
        user([{"type": "image"}, {"type": "image"}]),
        assistant("words"),
    ]
    return TokensTemplate(CHATML_TOKENS).render({"messages": said})


def test_a_cut_goes_before_a_medium_and_reports_what_it_cut_off() -> None:
    tokenizer = byte_level()
    rendered = images_between_answers()
    whole = encoded(Encoder(tokenizer, max_length=999), rendered)
    assert [run.kind for run in whole.media] == ["image"] * 3 and whole.cut_media == ()
    for run in whole.media:
        assert tokenizer.convert_ids_to_tokens(whole.input_ids[run.start : run.end].tolist()) == [
            "<start_of_image>",
            "</s>",
        ]
    second = whole.media[1]
    cut = encoded(Encoder(tokenizer, max_length=second.start + 1), rendered)
    assert len(cut) == second.start and cut.media == whole.media[:1] and cut.cut_media == whole.media[1:]
    between = encoded(Encoder(tokenizer, max_length=second.end), rendered)
    assert len(between) == second.end and between.media == whole.media[:2] and between.cut_media == whole.media[2:]


def test_placeholders_of_a_processor_are_runs_that_are_never_trained() -> None:
    tokenizer = byte_level()
    image, audio = tokenizer.convert_tokens_to_ids(["<start_of_image>", "<|call|>"])
    text = "a" + "<start_of_image>" * 4 + "b" + "<|call|>" * 2 + "<start_of_image>" * 3 + "c"
    rendered = Rendered(text, (TextSpan(0, len(text)),), bos=False)
    kinds = {image: "image", audio: "audio"}
    made = encoded(Encoder(tokenizer, max_length=99, placeholders=kinds), rendered)
    assert made.media == (Medium("image", 1, 5), Medium("audio", 6, 8), Medium("image", 8, 11))
    assert tokenizer.decode(made.input_ids[made.labels != NO_LABEL].tolist()) == "bc"
    for length, kept in ((11, 3), (10, 2), (9, 2), (8, 2), (7, 1), (6, 1)):
        cut = encoded(Encoder(tokenizer, max_length=length, placeholders=kinds), rendered)
        assert len(cut) == {11: 11, 10: 8, 9: 8, 8: 8, 7: 6, 6: 6}[length]
        assert cut.media == made.media[:kept] and cut.cut_media == made.media[kept:]


# Weights, pads, and what can not be used.


def test_fractions_are_loss_weights() -> None:
    tokenizer = whole_words()
    messages = [
        user("you"),
        assistant("words", weight=0.5),
        user("too"),
        assistant("too", weight=0.0),
        assistant("you"),
    ]
    made = encoded(Encoder(tokenizer, max_length=99), TokensTemplate(CHATML_TOKENS).render({"messages": messages}))
    assert made.loss_weights is not None and made.loss_weights.dtype == np.float32
    assert made.loss_weights.tolist() == [0, 0, 0, 0, 0, 0, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert ((made.labels != NO_LABEL) == (made.loss_weights > 0)).all()


def test_the_end_token_is_trained_where_it_is_also_the_padding() -> None:
    tokenizer = byte_level(chat_template=TEMPLATES["zephyr"])
    assert tokenizer.pad_token_id == tokenizer.eos_token_id
    made = encoded(Encoder(tokenizer, max_length=999), ChatTemplate(tokenizer).render({"messages": TWO_TURNS}))
    assert labelled(tokenizer, made).count("</s>") == 2 and made.input_ids.tolist().count(tokenizer.eos_token_id) == 4


def test_nothing_to_train_on_is_a_reason() -> None:
    encoder = Encoder(byte_level(), max_length=99)
    assert rejected(encoder, TokensTemplate(CHATML_TOKENS).render({"messages": [user("Hi")]})) == "nothing to train on"
    assert rejected(encoder, Rendered("", (), bos=False)) == "nothing to train on"


def test_half_of_a_surrogate_pair_is_a_reason() -> None:
    encoder = Encoder(byte_level(), max_length=99)
    good = Rendered("words words", (TextSpan(0, 11),), bos=False)
    bad = Rendered("words \ud83c", (TextSpan(0, 7),), bos=False)
    first, second, third = encoder.encode([good, bad, good])
    assert isinstance(second, Rejected) and str(second) == "not valid Unicode"
    assert isinstance(first, Encoded) and isinstance(third, Encoded)


def test_padding_and_truncation_of_the_tokenizer_change_nothing() -> None:
    tokenizer = byte_level()
    texts = Texts(tokenizer, tokens={}, max_length=99)
    rendered = Rendered("words " * 8, (TextSpan(0, 48),), bos=False)
    [before] = texts.encode([rendered])
    tokenizer(["a", "words " * 5], padding="max_length", truncation=True, max_length=6)
    [after] = texts.encode([rendered])
    assert isinstance(before, Encoded) and isinstance(after, Encoded)
    assert after.input_ids.tolist() == before.input_ids.tolist()
    assert len(tokenizer("a", padding="max_length", max_length=6)["input_ids"]) == 6
    [alone] = Encoder(tokenizer, max_length=99).encode([rendered])
    assert isinstance(alone, Encoded) and alone.input_ids.tolist() == before.input_ids.tolist()
    assert tokenizer.backend_tokenizer.padding is not None, "the user's own is as it was"


def test_an_encoder_travels_to_another_process() -> None:
    encoder = Encoder(byte_level(bos=True), max_length=99, placeholders={3: "image"})
    rendered = Rendered("words words", (TextSpan(0, 11),))
    copied = encoded(pickle.loads(pickle.dumps(encoder)), rendered)
    assert copied.labels.tolist() == encoded(encoder, rendered).labels.tolist()


def test_padding_is_the_padding_token_or_the_end_token() -> None:
    assert pad_id_of(byte_level(pad_token="<s>")) == byte_level().convert_tokens_to_ids("<s>") == 0
    assert pad_id_of(byte_level(pad_token=None)) == byte_level().eos_token_id
    with pytest.raises(ConfigError, match="neither a padding token nor an end token"):
        pad_id_of(byte_level(pad_token=None, eos_token=None))


def test_a_slow_tokenizer_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(ConfigError, match="labels need a fast tokenizer of transformers, which Slow is not"):
        Encoder(Slow(), max_length=9)


def document(text: str, tokenizer: Any, **options: Any) -> Encoded:
    rendered = TokensTemplate({"assistant_start": "<|a|>", "assistant_end": "<|/a|>"}).render({"text": text})
    [found] = Encoder(tokenizer, **{"max_length": 64, **options}).encode([rendered])
    assert isinstance(found, Encoded)
    return found


@pytest.mark.parametrize("bos", [True, False])  # whether the tokenizer adds BOS by itself
def test_a_text_without_turns_begins_with_bos_and_ends_with_a_trained_eos(bos: bool) -> None:
    tokenizer = byte_level(bos=bos, bos_token="<s>")
    found = document("It is sunny.", tokenizer)
    begin, end = tokenizer.convert_tokens_to_ids(["<s>", "</s>"])
    said = tokenizer("It is sunny.", add_special_tokens=False).input_ids
    assert found.input_ids.tolist() == [begin, *said, end]
    assert found.labels.tolist() == [NO_LABEL, *said, end]
    again = document("<s>It is sunny.</s>", tokenizer)
    assert again.input_ids.tolist() == found.input_ids.tolist()  # never a second one


def test_a_document_gets_no_token_that_the_tokenizer_lacks_and_a_cut_one_no_eos() -> None:
    plain = byte_level(eos_token=None, pad_token="</s>")
    said = plain("It is sunny.", add_special_tokens=False).input_ids
    assert document("It is sunny.", plain).input_ids.tolist() == said
    cut = document("It is sunny. " * 9, byte_level(), max_length=8)
    assert byte_level().eos_token_id not in cut.input_ids.tolist()


def test_a_text_with_turns_gets_no_eos_and_a_tokenizer_that_adds_eos_adds_it_once() -> None:
    rendered = TokensTemplate({"assistant_start": "[INST]", "assistant_end": "[/INST]"}).render(
        {"text": "[INST]It is sunny.[/INST]"}
    )
    [found] = Encoder(byte_level(), max_length=64).encode([rendered])
    assert isinstance(found, Encoded) and byte_level().eos_token_id not in found.input_ids.tolist()
    adding = byte_level()
    adding.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", adding.eos_token_id)]
    )
    assert document("It is sunny.", adding).input_ids.tolist().count(adding.eos_token_id) == 1


@pytest.mark.parametrize("adds", ["$A", "<s> $A", "$A </s>", "<s> $A </s>"])
@pytest.mark.parametrize("text", ["It is sunny.", "<s>It is sunny.", "It is sunny.</s>", "<s>It is sunny.</s>"])
def test_a_document_has_one_bos_and_one_eos_whatever_the_tokenizer_adds(adds: str, text: str) -> None:
    tokenizer = byte_level(bos_token="<s>")
    ends = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("<s>", "</s>")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=adds, special_tokens=ends)
    found = document(text, tokenizer)
    assert tokenizer.decode(found.input_ids) == "<s>It is sunny.</s>"
    assert found.labels.tolist() == [NO_LABEL, *found.input_ids[1:].tolist()]
