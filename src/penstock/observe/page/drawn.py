"""Panels as HTML: waveforms and curves as SVG, pictures and sounds embedded. Knows no recipe."""

from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.observe.page.markup import Markup, element, joined, text
from penstock.recipes.panels import (
    CurvePanel,
    FieldPanel,
    PackPanel,
    Panel,
    PicturePanel,
    SoundPanel,
    TextPanel,
    WebMedium,
)

THUMBNAIL_PIXELS = 320
_COLUMNS = 300  # of a waveform
_WAVE_HEIGHT = 56
_MEL_HEIGHT = 64
_CURVE_WIDTH = 300
_CURVE_HEIGHT = 110
_COLOURS = 8  # of curves, in the style sheet
_MAX_PICTURES = 32  # of a strip
_MAX_CURVES = 24  # dimensions of a panel


def draw(panel: Panel, sound_bytes: int) -> Markup:
    """Return a panel as HTML.

    Args:
        panel: Panel to draw.
        sound_bytes: Maximum size of an embedded sound; the rest of the sound is left out.
    """
    drawn = _sound(panel, sound_bytes) if isinstance(panel, SoundPanel) else _DRAWN[type(panel)](panel)
    return element("section", element("h4", panel.title) if panel.title else None, drawn, class_="panel")


def _text(panel: TextPanel) -> Markup:
    # Short tags: a page may have a hundred thousand tokens.
    pieces = (
        f'<{tag} title="{text(piece.note)}">{text(piece.text)}</{tag}>' if piece.note else text(piece.text)
        for piece in panel.pieces
        for tag in ("b" if piece.trained else "i",)
    )
    return element("pre", Markup("".join(pieces)), class_="tokens" if panel.tokens else None, dir="auto", tabindex="0")


def _sound(panel: SoundPanel, max_bytes: int) -> Markup:
    finite = np.isfinite(panel.samples)
    lost = len(finite) - int(finite.sum())
    if lost:
        panel = replace(panel, samples=np.where(finite, panel.samples, 0.0))
    shown = panel.cut(max_bytes)
    low, high = (panel.peaks(_COLUMNS) * (_WAVE_HEIGHT / 2)).clip(-_WAVE_HEIGHT / 2, _WAVE_HEIGHT / 2).T
    x = np.arange(_COLUMNS)
    middle = _WAVE_HEIGHT / 2
    outline = [*zip(x, middle - high - 0.4, strict=True), *zip(x[::-1], (middle - low + 0.4)[::-1], strict=True)]
    wave = _svg(_COLUMNS, _WAVE_HEIGHT, element("path", d=_path(outline), class_="wave"), label="waveform")
    mel = element("img", src=_uri(panel.mel(_COLUMNS, _MEL_HEIGHT)), alt="mel spectrogram", class_="mel")
    cut = f"sound: the first {shown.seconds:.1f} s of {panel.seconds:.1f} s"
    return joined(
        wave,
        mel,
        element("audio", controls=True, preload="metadata", src=_uri(shown.encode())),
        left_out(cut) if len(shown.samples) < len(panel.samples) else None,
        left_out(f"not finite, and 0 here: {lost:,} of {len(finite):,} values") if lost else None,
    )


def _pictures(panel: PicturePanel) -> Markup:
    strip = [
        element(
            "figure",
            element("img", src=_uri(picture.thumbnail(THUMBNAIL_PIXELS)), alt=picture.note or panel.title),
            element("figcaption", picture.note, " padding" if picture.is_pad else "") if picture.note else None,
            class_="pad" if picture.is_pad else None,
        )
        for picture in panel.pictures[:_MAX_PICTURES]
    ]
    more = len(panel.pictures) - _MAX_PICTURES
    return joined(element("div", strip, class_="strip"), left_out(f"{more} more pictures") if more > 0 else None)


def _curves(panel: CurvePanel) -> Markup:
    values = panel.values[:, :_MAX_CURVES]
    finite = np.isfinite(values)
    x = _scaled(panel.times, 6, _CURVE_WIDTH - 6)
    y = _scaled(values, _CURVE_HEIGHT - 6, 6)
    points = [[*zip(x[known], line[known], strict=True)] for line, known in zip(y.T, finite.T, strict=True)]
    half = (x[1] - x[0]) / 2 if len(x) > 1 else 6.0
    shaded = [
        element("rect", x=_number(at - half), y=0, width=_number(2 * half), height=_CURVE_HEIGHT, class_="pad")
        for at in x[panel.is_pad]
    ]
    now = np.interp(0.0, panel.times, x) if panel.times.min() <= 0 <= panel.times.max() else None
    mark = None if now is None else element("line", x1=_number(now), x2=_number(now), y1=0, y2=_CURVE_HEIGHT)
    lines = [
        element(
            "g",
            element("path", d=_path(line)) if line else None,
            [element("circle", cx=_number(a), cy=_number(b), r=2) for a, b in line],
            class_=f"curve c{number % _COLOURS}",
        )
        for number, line in enumerate(points)
    ]
    lost = finite.size - int(finite.sum())
    more = panel.values.shape[1] - _MAX_CURVES
    return joined(
        _svg(_CURVE_WIDTH, _CURVE_HEIGHT, shaded, mark, lines, label=panel.title),
        element("p", _span(panel.times, panel.is_pad, values), class_="axis"),
        left_out(f"not finite: {lost:,} of {finite.size:,} values") if lost else None,
        left_out(f"{more} more dimensions") if more > 0 else None,
    )


def _span(times: NDArray[Any], is_pad: NDArray[np.bool_], values: NDArray[Any]) -> str:
    padded = f", {int(is_pad.sum())} of {len(is_pad)} padding" if is_pad.any() else ""
    known = _finite(values)
    return f"{times[0]:+.3g} s to {times[-1]:+.3g} s{padded}; values {known.min():.3g} to {known.max():.3g}"


def _fields(panel: FieldPanel) -> Markup:
    return element("dl", ([element("dt", name), element("dd", value)] for name, value in panel.fields.items()))


def _pack(panel: PackPanel) -> Markup:
    scale = _CURVE_WIDTH / max(1, panel.length)
    bars = [
        element(
            "rect",
            element("title", f"member {member}: tokens {start:,} to {end - 1:,}"),
            x=_number(start * scale),
            width=_number((end - start) * scale),
            y=0,
            height=14,
            class_=f"m{number % 2}",
        )
        for number, (member, start, end) in enumerate(zip(panel.members, panel.starts, panel.ends, strict=True))
    ]
    return element("div", _svg(_CURVE_WIDTH, 14, bars, label="members of the pack"), class_="bar")


_DRAWN: dict[type, Callable[[Any], Markup]] = {
    TextPanel: _text,
    PicturePanel: _pictures,
    CurvePanel: _curves,
    FieldPanel: _fields,
    PackPanel: _pack,
}


def left_out(what: str) -> Markup:
    """Return a note on something that the page does not show."""
    return element("p", what, class_="left")


def _svg(width: int, height: int, *children: Any, label: str) -> Markup:
    box = f"0 0 {width} {height}"
    return element("svg", *children, viewBox=box, preserveAspectRatio="none", role="img", aria_label=label)


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _scaled(values: NDArray[Any], low: float, high: float) -> NDArray[Any]:
    known = _finite(values)
    span = float(known.max() - known.min()) or 1.0
    scaled: NDArray[Any] = low + (values - known.min()) * ((high - low) / span)
    return scaled


def _finite(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values that are finite; 0 if there are none."""
    finite = np.isfinite(values)
    return values[finite] if finite.any() else np.zeros(1)


def _uri(medium: WebMedium) -> str:
    return f"data:{medium.type};base64,{b64encode(medium.data).decode()}"
