"""Samples of chat data -> one batch: stacked and padded, with the row of each medium. Knows no plan."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from penstock.text.formats.sample import FLAGS
from penstock.text.labels import NO_LABEL
from penstock.text.mediakinds import PICTURES, SOUNDS

LISTED = ("text", "dtype", "gen_prompts")


def collate_fn(batch: list[dict[str, Any]]) -> dict[str, Any]:
    """Make a batch of samples.

    A sample has ``input_ids`` and ``attention_mask`` [T], and any of the keys below. A medium is a tensor; a sample
    with several of one kind has a list of tensors. A key whose value is None counts as absent. In the batch are:

    - ``input_ids``, ``attention_mask`` [B, T];
    - ``labels`` [B, T], if any sample has them; −100 in the rows of the others;
    - ``images``, ``videos``, ``gen_images``, ``gen_videos``: all media of the batch, stacked; a list if their shapes
      differ. ``image_rows``, ``video_rows``, ``gen_image_rows``, ``gen_video_rows`` give the sample of each;
    - ``audio``, ``target_audio``, ``speaker_ref``: all sounds of the batch, stacked, with zeros after the shorter ones;
      with ``audio_rows``, ``audio_lengths`` and so on. Lengths are those before the zeros;
    - ``has_image_gen``, ``has_video_gen``, ``has_asr``, ``has_tts``: whether any sample has the flag;
    - ``text``, ``dtype``, ``gen_prompts``: lists with one element per sample, if any sample has it, else None in place.

    Media that no sample has are absent from the batch.

    Args:
        batch: Samples, at least one.
    """
    result: dict[str, Any] = {
        "input_ids": torch.stack([sample["input_ids"] for sample in batch]),
        "attention_mask": torch.stack([sample["attention_mask"] for sample in batch]),
    }
    if any(sample.get("labels") is not None for sample in batch):
        result["labels"] = torch.stack([_labels(sample) for sample in batch])
    result |= media_fields(batch, range(len(batch)))
    for key in LISTED:
        values = [sample.get(key) for sample in batch]
        if any(value is not None for value in values):
            result[key] = values
    for key in FLAGS:
        result[key] = any(sample.get(key, False) for sample in batch)
    return result


def media_fields(samples: Sequence[Mapping[str, Any]], rows: Sequence[int]) -> dict[str, Any]:
    """Return the media of samples, as ``collate_fn`` does, and the row of each.

    Args:
        samples: Samples with media under the keys of ``collate_fn``.
        rows: Row of each sample.
    """
    result: dict[str, Any] = {}
    for kind in PICTURES:
        media, of = _media(samples, rows, kind.batch_key)
        if media:
            result[kind.batch_key] = torch.stack(media) if _alike(media) else media
            result[kind.rows_key] = of
    for kind in SOUNDS:
        media, of = _media(samples, rows, kind.batch_key)
        if media:
            result[kind.batch_key] = _padded(media)
            result[kind.rows_key] = of
            result[kind.lengths_key] = _whole_numbers([sound.shape[-1] for sound in media])
    return result


def _labels(sample: dict[str, Any]) -> Tensor:
    labels: Tensor | None = sample.get("labels")
    return torch.full_like(sample["input_ids"], NO_LABEL) if labels is None else labels


def _media(samples: Sequence[Mapping[str, Any]], rows: Sequence[int], key: str) -> tuple[list[Tensor], Tensor]:
    """Return all media of a kind, and the row of each."""
    media: list[Tensor] = []
    of: list[int] = []
    for row, sample in zip(rows, samples, strict=True):
        value = sample.get(key)
        several = value if isinstance(value, list | tuple) else [] if value is None else [value]
        media += several
        of += [row] * len(several)
    return media, _whole_numbers(of)


def _alike(media: Sequence[Tensor]) -> bool:
    return len({medium.shape for medium in media}) == 1


def _padded(sounds: Sequence[Tensor]) -> Tensor:
    longest = max(sound.shape[-1] for sound in sounds)
    return torch.stack([pad(sound, (0, longest - sound.shape[-1])) for sound in sounds])


def _whole_numbers(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device="cpu")
