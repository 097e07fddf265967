"""What a page shows of a sample of any recipe: its own panels, or its files. A file without a picture is described."""

import io
import json
import wave
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import numpy as np

from penstock.media.audio.clip import EXTENSIONS as SOUNDS
from penstock.media.errors import BadMedia
from penstock.recipes.panels import FieldPanel, Panel, Picture, PicturePanel, SoundPanel, TextPanel, TextPiece
from penstock.recipes.recipe import Recipe
from penstock.recipes.speech import DECODERS

PICTURES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "avif")
_SOUND_SECONDS = 60.0
_SOUND_RATE = 16_000
_TEXT_BYTES = 20_000
_FIRST_BYTES = 32  # of a file that is neither a medium nor a text


def panels_of(recipe: Recipe[Any], batch: dict[str, Any], index: int) -> Iterable[Panel]:
    """Return what a page shows of one sample: what ``recipe.panels`` returns, if it has that method, else its files.

    Args:
        recipe: Recipe that made the batch.
        batch: Batch of the recipe.
        index: Index of the sample.
    """
    own = getattr(recipe, "panels", None)
    if own is not None:
        found: Iterable[Panel] = own(batch, index)
        return found
    return (file_panel(ending, data) for ending, data in recipe.preview(batch, index))


def file_panel(ending: str, data: bytes) -> Panel:
    """Return the panel of a file.

    Args:
        ending: Extension, such as ``wav`` or ``left.jpg``.
        data: Content.
    """
    kind = ending.rpartition(".")[2].lower()
    try:
        if kind in PICTURES and find_spec("PIL") is not None:
            from penstock.media.image.pixels import image_pixels

            return PicturePanel([Picture(image_pixels(data))], title=ending)
        if kind in SOUNDS and all(find_spec(package) is not None for package in DECODERS):
            from penstock.media.audio.sound import sound_samples

            return SoundPanel(sound_samples(data, _SOUND_SECONDS, _SOUND_RATE), _SOUND_RATE, title=ending)
        if kind == "wav":
            return _plain_wav(ending, data)
    except BadMedia as error:
        return FieldPanel({"size": _size(data), "not shown": str(error)}, title=ending)
    if kind == "json":
        return _json(ending, data)
    return _text(ending, data)


def _plain_wav(ending: str, data: bytes) -> Panel:
    """Return the panel of a 16-bit WAV, which needs no decoder. The demo of a plain installation has these."""
    try:
        with wave.open(io.BytesIO(data)) as sound:
            if sound.getsampwidth() != 2:
                raise BadMedia("its samples are not of 16 bits: pip install 'penstock[speech]'")
            frames = sound.readframes(round(_SOUND_SECONDS * sound.getframerate()))
            channels = sound.getnchannels()
            rate = sound.getframerate()
    except (wave.Error, EOFError) as error:
        raise BadMedia(f"not a PCM WAV ({error}): pip install 'penstock[speech]'") from None
    whole = len(frames) // (2 * channels) * channels
    return SoundPanel(np.frombuffer(frames, "<i2")[:whole:channels] / np.float32(2**15), rate, title=ending)


def _json(ending: str, data: bytes) -> Panel:
    """Return the panel of a JSON object. A long one is shown as text that is cut, and so is anything else."""
    if len(data) > _TEXT_BYTES:
        return _text(ending, data)
    try:
        value = json.loads(data)
        if isinstance(value, dict):
            return FieldPanel({key: value_text(each) for key, each in value.items()}, title=ending)
    except (ValueError, RecursionError):  # not JSON, or nested a thousand times
        pass
    return _text(ending, data)


def value_text(value: object) -> str:
    """Return a value of a JSON file as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(ending: str, data: bytes) -> Panel:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return FieldPanel({"size": _size(data), "first bytes": data[:_FIRST_BYTES].hex(" ")}, title=ending)
    rest = f" (the first {_TEXT_BYTES:,} of {len(text):,} characters)" if len(text) > _TEXT_BYTES else ""
    return TextPanel([TextPiece(text[:_TEXT_BYTES])], title=ending + rest)


def _size(data: bytes) -> str:
    return f"{len(data):,} bytes"


def number_text(value: object) -> str:
    """Return numbers as a short text."""
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.6g}" if array.dtype.kind == "f" else str(array.item())
    return np.array2string(array, precision=4, suppress_small=True, separator=", ", threshold=64)
