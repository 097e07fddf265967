"""One sample of a robot batch as panels of a page: cameras as strips, windows as curves, other values as numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.recipes.file_panels import number_text
from penstock.recipes.panels import CurvePanel, FieldPanel, Panel, Picture, PicturePanel
from penstock.recipes.robot_fields import Fields


def robot_panels(
    batch: Mapping[str, Any], index: int, fields: Fields, deltas: Mapping[str, Sequence[float]]
) -> Iterator[Panel]:
    """Yield the panels of one sample.

    Args:
        batch: Batch of the robot recipe.
        index: Index of the sample.
        fields: Fields of the batch.
        deltas: Windows by feature, in seconds.
    """
    plain = {"task": str(batch["task"][index])}
    curves: list[Panel] = []
    for key, field in fields.items():
        value = batch[key][index]
        times = np.asarray(deltas.get(key, (0.0,)), np.float64)
        is_pad = np.asarray(batch[f"{key}_is_pad"][index]) if f"{key}_is_pad" in batch else np.zeros(1, bool)
        if f"{key}_is_missing" in batch and bool(batch[f"{key}_is_missing"][index]):
            plain[key] = "missing in this dataset"
        elif field.is_camera:
            yield _strip(key, np.asarray(value), times, is_pad)
        elif field.kind != "string" and field.frames is not None and field.frames > 1:
            values = np.asarray(value, np.float64).reshape(len(times), -1)
            curves.append(CurvePanel(times, values, is_pad, title=key))
        else:
            plain[key] = str(value) if field.kind == "string" else number_text(value)
    yield from curves
    yield FieldPanel(plain)


def _strip(key: str, value: NDArray[Any], times: NDArray[np.float64], is_pad: NDArray[np.bool_]) -> PicturePanel:
    frames = visible(np.moveaxis(value.reshape(-1, *value.shape[-3:]), -3, -1))
    notes = [f"{time:+.3g} s" if time else "0 s" for time in times.tolist()]
    return PicturePanel([Picture(*each) for each in zip(frames, notes, is_pad.tolist(), strict=True)], title=key)


def visible(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels unchanged, and distances as shades of grey, the farthest white."""
    if pixels.dtype == np.uint8:
        return pixels
    return (pixels * (255 / max(float(pixels.max()), 1e-9))).astype(np.uint8)
