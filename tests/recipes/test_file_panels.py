"""Files as panels: by extension, and described where they cannot be shown."""

import io
import json
import wave
from importlib import util
from typing import Any

import numpy as np
import pytest

from penstock.media.audio.wav import wav_bytes
from penstock.recipes.file_panels import file_panel, number_text, panels_of
from penstock.recipes.panels import FieldPanel, SoundPanel, TextPanel

RAMP = (np.arange(800) - 400) / np.float32(2**15)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no extra were installed."""
    found = util.find_spec
    missing = ("PIL", "miniaudio", "soundfile", "soxr")
    monkeypatch.setattr("penstock.recipes.file_panels.find_spec", lambda name: None if name in missing else found(name))


def test_sounds_of_16_bits_need_no_extra(bare: None) -> None:
    panel = file_panel("wav", wav_bytes(RAMP, 8_000))
    assert isinstance(panel, SoundPanel) and panel.rate == 8_000
    assert (panel.samples == RAMP).all()
    stereo = io.BytesIO()
    with wave.open(stereo, "wb") as writer:
        writer.setparams((2, 2, 8_000, 0, "NONE", ""))
        writer.writeframes(np.repeat(np.arange(5, dtype="<i2"), 2).tobytes())
    panel = file_panel("left.wav", stereo.getvalue())
    assert isinstance(panel, SoundPanel) and (panel.samples * 2**15).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("ending", "data"), [("wav", b"RIFF"), ("wav", b""), ("jpg", b"\xff\xd8\xff"), ("flac", b"fLaC\0")]
)
def test_what_cannot_be_shown_is_described(ending: str, data: bytes, bare: None) -> None:
    panel = file_panel(ending, data)
    assert isinstance(panel, FieldPanel) and panel.title == ending
    assert panel.fields["size"] == f"{len(data):,} bytes"


def test_damaged_media_say_what_is_wrong() -> None:
    for ending in ("jpg", "wav", "flac"):
        panel = file_panel(ending, b"damaged")
        assert isinstance(panel, FieldPanel) and panel.fields["not shown"]


def test_texts_and_values() -> None:
    panel = file_panel("json", b'{"a": 1, "b": ["c"], "d": "e"}')
    assert isinstance(panel, FieldPanel) and panel.fields == {"a": "1", "b": '["c"]', "d": "e"}
    for ending, data in (("json", b"[1]"), ("json", b"{"), ("txt", "ক".encode()), ("cls", b"7")):
        panel = file_panel(ending, data)
        assert isinstance(panel, TextPanel) and panel.pieces[0].text == data.decode()
    panel = file_panel("txt", b"a" * 30_000)
    assert isinstance(panel, TextPanel) and len(panel.pieces[0].text) == 20_000
    assert panel.title == "txt (the first 20,000 of 30,000 characters)"
    assert number_text(np.float32(0.1)) == "0.1" and number_text([1, 2]) == "[1, 2]"


@pytest.mark.parametrize("nested", [900, 990, 9_000])
def test_values_may_be_nested_in_each_other(nested: int) -> None:
    panel = file_panel("json", b'{"a": %s}' % (b"[" * nested + b"]" * nested))
    assert isinstance(panel, FieldPanel | TextPanel) and panel.title == "json"


def test_long_values_are_shown_as_a_text_that_is_cut() -> None:
    data = json.dumps({"words": ["a"] * 10_000}).encode()
    panel = file_panel("json", data)
    assert isinstance(panel, TextPanel) and panel.pieces[0].text == data[:20_000].decode()
    assert panel.title == f"json (the first 20,000 of {len(data):,} characters)"


def test_a_recipe_without_panels_is_shown_by_its_files() -> None:
    class Captions:
        needs = None

        def preview(self, batch: dict[str, Any], index: int) -> list[tuple[str, bytes]]:
            return [("txt", batch["texts"][index].encode())]

    recipe: Any = Captions()
    [panel] = panels_of(recipe, {"texts": ["a", "b"]}, 1)
    assert isinstance(panel, TextPanel) and panel.pieces[0].text == "b"
