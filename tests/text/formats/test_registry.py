"""Formats by dtype: adding one, finding one, and what is wrong before the first record."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.errors import ConfigError
from penstock.text import formats
from penstock.text.formats import registry


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(registry._FORMATS)
    yield
    registry._FORMATS.clear()
    registry._FORMATS.update(before)


def test_a_format_is_added_in_five_lines() -> None:
    @formats.register("poem", modality="text", media=["Cover"], tokens=["user_start"])
    def poem(record, tokens):  # type: ignore[no-untyped-def]
        messages = [{"role": "user", "content": record["topic"]}, {"role": "assistant", "content": record["poem"]}]
        return {"messages": messages}

    found = formats.find("poem")
    assert found({"topic": "rain", "poem": "drip"}, {})["messages"][1]["content"] == "drip"
    assert found.function is poem and "poem" in formats.dtypes()
    assert (found.modality, found.media, found.tokens) == ("text", ("cover",), ("user_start",))


def test_the_name_says_the_modality_unless_it_is_given() -> None:
    formats.register("voice_mine")(lambda record, tokens: None)
    formats.register("voice_text", modality="text")(lambda record, tokens: None)
    assert formats.find("voice_mine").modality == "audio" and formats.find("voice_text").modality == "text"


def test_a_cell_that_is_run_again_replaces_its_format() -> None:
    for answer in ("first", "second"):
        formats.register("mine")(lambda record, tokens, answer=answer: {"text": answer})  # type: ignore[misc]
    assert formats.find("mine")({}, {})["text"] == "second"


def test_a_format_of_a_module_reaches_another_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from penstock.text import formats\n\n"
        '@formats.register("mine", media=["photo"])\n'
        "def mine(record, tokens):\n"
        '    return {"text": record["a"]}\n'
    )
    begin = f"import pickle, sys; sys.path.insert(0, {str(tmp_path)!r}); "
    making = "import mine; from penstock.text import formats; "
    made = python(begin + making + "sys.stdout.buffer.write(pickle.dumps(formats.find('mine')))")
    read = python(begin + "f = pickle.load(sys.stdin.buffer); print(f.media, f({'a': 'b'}, {})['text'])", made)
    assert read.decode().strip() == "('photo',) b"


def python(code: str, given: bytes = b"") -> bytes:
    return subprocess.run([sys.executable, "-c", code], input=given, stdout=subprocess.PIPE, check=True).stdout


def test_a_function_that_no_module_holds_can_not_be_pickled() -> None:
    formats.register("mine")(lambda record, tokens: {"text": "a"})
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(formats.find("mine"))


def test_an_unknown_dtype_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"dtype 'visoin' has no format; did you mean vision\?") as error:
        formats.find("visoin")
    assert "@penstock.text.formats.register('visoin')" in str(error.value)
    with pytest.raises(ConfigError, match="there are agentic, anti_hallucination, "):
        formats.find("qqqqqqqq")


def test_tokens_that_are_missing_are_named_with_the_dtype() -> None:
    used = [formats.find("conversation"), formats.find("vision"), formats.find("vision")]
    tokens = dict.fromkeys(formats.find("conversation").tokens, "<t>")
    with pytest.raises(ConfigError) as error:
        formats.require_tokens(used, tokens)
    assert str(error.value) == "tokens: image_start, image_end missing; dtype 'vision' needs them"
    formats.require_tokens(used, {**tokens, "image_start": "<i>", "image_end": ""})
