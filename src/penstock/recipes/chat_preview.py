"""Rows of a chat batch as files to look at: the text, with its trained part in colour, and the media."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

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
MIN_RUN = 8  # equal tokens in a row, which are shown as one: those of an image


class TokenRange(NamedTuple):
    """The tokens of one sample.

    Attributes:
        start: First token, counted over all rows if several samples share a row.
        ids: Token ids.
        labels: Label of each token.
        weights: Loss weight of each token; None if it is 1 for every label.
    """

    start: int
    ids: list[int]
    labels: list[int]
    weights: list[float] | None = None


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
        for number, value in enumerate(media_of_row(batch, kind.batch_key, kind.rows_key, index)):
            frames = [
                visible_pixels(frame, media.load_image_processor()) for frame in value.reshape(-1, *value.shape[-3:])
            ]
            yield f"{kind.stem}{number}.png", _png(_sheet(frames))
    for number, image in enumerate(processed_images(batch, index, media)):
        yield f"image{number}.png", _png(visible_pixels(image, media.load_image_processor()))
    for kind in SOUNDS:
        lengths = media_of_row(batch, kind.lengths_key, kind.rows_key, index)
        for number, value in enumerate(media_of_row(batch, kind.batch_key, kind.rows_key, index)):
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
    return "\n".join(_coloured(ids, labels, tokenizer) for _, ids, labels, _ in token_ranges(batch, index))


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
    """Yield the text of tokens, with long runs of one token written as ``token×count``, unless they indent."""
    plain: list[int] = []
    for token, group in groupby(ids):
        count = sum(1 for _ in group)
        text = str(tokenizer.decode([token]))
        if count < MIN_RUN or text.isspace():
            plain += [token] * count
            continue
        yield f"{tokenizer.decode(plain)}{text}×{count}"
        plain = []
    yield str(tokenizer.decode(plain))


def token_ranges(batch: Mapping[str, Any], index: int) -> Iterator[TokenRange]:
    """Yield the tokens of each sample of a row, without padding."""
    columns = [np.asarray(batch["input_ids"]), np.asarray(batch["labels"])]
    if "loss_weights" in batch:
        columns.append(np.asarray(batch["loss_weights"]))
    if "sequence_ids" not in batch:
        own = np.asarray(batch["attention_mask"])[index] > 0
        yield TokenRange(0, *(column[index][own].tolist() for column in columns))
        return
    real = np.asarray(batch["sequence_ids"]).ravel()
    bounds = np.asarray(batch["cu_seqlens"]).tolist()
    parts = [slice(start, end) for start, end in pairwise(bounds) if real[start]]
    rows = np.asarray(batch["sample_rows"]).tolist()
    for part, row in zip(parts, rows, strict=True):
        if row == index:
            yield TokenRange(part.start, *(column.ravel()[part].tolist() for column in columns))


def media_of_row(batch: Mapping[str, Any], name: str, rows: str, index: int) -> list[NDArray[Any]]:
    if name not in batch or rows not in batch:
        return []
    here = np.flatnonzero(np.asarray(batch[rows]) == index).tolist()
    return [np.asarray(batch[name][number]) for number in here]


def visible_pixels(image: NDArray[Any], processor: Any) -> NDArray[np.uint8]:
    """Undo the normalisation of pixels [3, H, W]."""
    mean = getattr(processor, "mean", None) or getattr(processor, "image_mean", None) or (0.5,) * 3
    std = getattr(processor, "std", None) or getattr(processor, "image_std", None) or (0.5,) * 3
    pixels = np.moveaxis(image.astype(np.float32), 0, -1) * np.asarray(std, np.float32) + np.asarray(mean, np.float32)
    return np.clip(np.rint(pixels * 255), 0, 255).astype(np.uint8)


def processed_images(batch: Mapping[str, Any], index: int, media: ChatMedia) -> Iterator[NDArray[Any]]:
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

        yield f"{name}.wav", wav_bytes(value, audio_rate(media))
        return
    yield f"{name}.png", _png(spectrogram(value))


def audio_rate(media: ChatMedia) -> int:
    """Return the sample rate of the sounds of a batch, in Hz."""
    return int(media.options.get("audio_sample_rate", 16_000))


def spectrogram(value: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a spectrogram [mels, frames] as grey pixels, low frequencies below."""
    span = max(float(value.max() - value.min()), 1e-9)
    shades: NDArray[Any] = (value[::-1] - value.min()) * (255 / span)
    return shades.astype(np.uint8)[:, :, None]
