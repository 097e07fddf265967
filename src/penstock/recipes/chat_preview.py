"""Rows of a chat batch as files to look at: the text, with its trained part in colour, and the media."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.recipes.chat_media import ChatMedia
from penstock.text.labels import NO_LABEL
from penstock.text.mediakinds import PICTURES, SOUNDS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TRAINED = "\x1b[32m"  # green
_PLAIN = "\x1b[0m"
_COLUMNS = 8  # of the frames of a video
_MIN_RUN = 8  # equal tokens in a row, which are shown as one: those of an image


def preview_row(
    batch: Mapping[str, Any], index: int, tokenizer: "PreTrainedTokenizerFast", media: ChatMedia
) -> Iterator[tuple[str, bytes]]:
    """Yield extension and content of the files of one row.

    Args:
        batch: Batch of the chat recipe.
        index: Row number.
        tokenizer: Tokenizer that made the tokens.
        media: Object that made the media.
    """
    samples = np.flatnonzero(np.asarray(batch["sample_rows"]) == index).tolist()
    yield "txt", "\n".join(batch["text"][sample] for sample in samples).encode(errors="replace")
    yield "ansi", coloured(batch, index, tokenizer).encode(errors="replace")
    for kind in PICTURES:
        for number, value in enumerate(_of_row(batch, kind.batch_key, kind.rows_key, index)):
            frames = [_visible(frame, media.load_image_processor()) for frame in value.reshape(-1, *value.shape[-3:])]
            yield f"{kind.stem}{number}.png", _png(_sheet(frames))
    for number, image in enumerate(_processed(batch, index, media)):
        yield f"image{number}.png", _png(_visible(image, media.load_image_processor()))
    for kind in SOUNDS:
        lengths = _of_row(batch, kind.lengths_key, kind.rows_key, index)
        for number, value in enumerate(_of_row(batch, kind.batch_key, kind.rows_key, index)):
            yield from _sound(f"{kind.stem}{number}", value[..., : int(lengths[number])], media)


def _png(pixels: NDArray[Any]) -> bytes:
    from penstock.media.image.file import png_bytes  # imports Pillow, which texts do not need

    return png_bytes(pixels)


def _sheet(frames: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return frames as one picture, row by row, padded with black."""
    columns = min(_COLUMNS, len(frames))
    missing = -len(frames) % columns
    filled = [*frames, *[np.zeros_like(frames[0])] * missing]
    rows = [np.concatenate(filled[start : start + columns], axis=1) for start in range(0, len(filled), columns)]
    return np.concatenate(rows, axis=0)


def coloured(batch: Mapping[str, Any], index: int, tokenizer: "PreTrainedTokenizerFast") -> str:
    """Return the tokens of a row as text, the trained ones in green, one sample per paragraph."""
    return "\n".join(_coloured(ids, labels, tokenizer) for ids, labels in _samples(batch, index))


def _coloured(ids: list[int], labels: list[int], tokenizer: "PreTrainedTokenizerFast") -> str:
    pieces = []
    for trained, group in groupby(zip(ids, labels, strict=True), key=lambda pair: pair[1] != NO_LABEL):
        text = "".join(_shortened([token for token, _ in group], tokenizer))
        pieces.append(f"{TRAINED}{_visible_text(text)}{_PLAIN}" if trained else _visible_text(text))
    return "".join(pieces)


def _visible_text(text: str) -> str:
    """Return a text without control characters, which a terminal would obey."""
    return "".join(each if each.isprintable() or each in "\n\t" else "�" for each in text)


def _shortened(ids: list[int], tokenizer: "PreTrainedTokenizerFast") -> Iterable[str]:
    """Yield the text of tokens, with long runs of one token written as ``token×count``."""
    plain: list[int] = []
    for token, group in groupby(ids):
        count = sum(1 for _ in group)
        if count < _MIN_RUN:
            plain += [token] * count
            continue
        yield f"{tokenizer.decode(plain)}{tokenizer.decode([token])}×{count}"
        plain = []
    yield str(tokenizer.decode(plain))


def _samples(batch: Mapping[str, Any], index: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield tokens and labels of each sample of a row, without padding."""
    ids = np.asarray(batch["input_ids"])
    labels = np.asarray(batch["labels"])
    if "sequence_ids" not in batch:
        own = np.asarray(batch["attention_mask"])[index] > 0
        yield ids[index][own].tolist(), labels[index][own].tolist()
        return
    real = np.asarray(batch["sequence_ids"]).ravel()
    bounds = np.asarray(batch["cu_seqlens"]).tolist()
    parts = [slice(start, end) for start, end in pairwise(bounds) if real[start]]
    rows = np.asarray(batch["sample_rows"]).tolist()
    for part, row in zip(parts, rows, strict=True):
        if row == index:
            yield ids.ravel()[part].tolist(), labels.ravel()[part].tolist()


def _of_row(batch: Mapping[str, Any], name: str, rows: str, index: int) -> list[NDArray[Any]]:
    if name not in batch or rows not in batch:
        return []
    here = np.flatnonzero(np.asarray(batch[rows]) == index).tolist()
    return [np.asarray(batch[name][number]) for number in here]


def _visible(image: NDArray[Any], processor: Any) -> NDArray[np.uint8]:
    """Undo the normalisation of pixels [3, H, W]."""
    mean = getattr(processor, "mean", None) or getattr(processor, "image_mean", None) or (0.5,) * 3
    std = getattr(processor, "std", None) or getattr(processor, "image_std", None) or (0.5,) * 3
    pixels = np.moveaxis(image.astype(np.float32), 0, -1) * np.asarray(std, np.float32) + np.asarray(mean, np.float32)
    return np.clip(np.rint(pixels * 255), 0, 255).astype(np.uint8)


def _processed(batch: Mapping[str, Any], index: int, media: ChatMedia) -> Iterator[NDArray[Any]]:
    """Yield the processor's images of a row, or their tiles, [3, H, W] each."""
    if "pixel_values" not in batch:
        return
    values = np.asarray(batch["pixel_values"])
    rows = np.asarray(batch["image_rows"])
    if "image_grid_thw" in batch:
        grids = np.asarray(batch["image_grid_thw"])
        ends = np.cumsum(grids.prod(axis=1))
        for number in np.flatnonzero(rows == index).tolist():
            first = ends[number] - grids[number].prod()
            yield _of_patches(values[first : ends[number]], grids[number].tolist(), media.load_image_processor())
    elif values.ndim == 4 and len(values) == len(rows):
        yield from values[rows == index]
    elif values.ndim == 5 and len(values) == len(rows):
        yield from _tiles(values[rows == index])
    elif values.ndim == 5:  # one entry per row with images
        with_images = np.array(list(dict.fromkeys(rows.tolist())))
        yield from _tiles(values[with_images == index])


def _tiles(images: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield all tiles of images, [3, H, W] each. Zeros are padding."""
    return (tile for tile in images.reshape(-1, *images.shape[-3:]) if tile.any())


def _of_patches(patches: NDArray[Any], grid: list[int], processor: Any) -> NDArray[Any]:
    """Return an image from the patches of Qwen2-VL's processor."""
    times, height, width = grid
    merge: int = processor.merge_size
    patch: int = processor.patch_size
    shape = (times, height // merge, width // merge, merge, merge, 3, -1, patch, patch)
    frames = patches.reshape(shape).transpose(0, 6, 5, 1, 3, 7, 2, 4, 8)
    image: NDArray[Any] = frames.reshape(-1, 3, height * patch, width * patch)[0]
    return image


def _sound(name: str, value: NDArray[Any], media: ChatMedia) -> Iterator[tuple[str, bytes]]:
    """Yield samples as a WAV file, and a spectrogram as an image."""
    if value.ndim == 1:
        from penstock.media.audio.wav import wav_bytes

        yield f"{name}.wav", wav_bytes(value, int(media.options.get("audio_sample_rate", 16_000)))
        return
    span = max(float(value.max() - value.min()), 1e-9)
    shades = ((value[::-1] - value.min()) * (255 / span)).astype(np.uint8)
    yield f"{name}.png", _png(shades[:, :, None])
