"""What a page shows of a sample: texts, sounds, pictures, curves, fields. Knows no recipe and no page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class WebMedium(NamedTuple):
    """A medium as a browser takes it.

    Attributes:
        type: MIME type.
        data: Content.
    """

    type: str
    data: bytes


class TextPiece(NamedTuple):
    """A part of a text.

    Attributes:
        text: The part.
        note: Description, shown on hover.
        trained: Whether the part is trained.
    """

    text: str
    note: str = ""
    trained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Titled:
    """Attributes of every panel.

    Attributes:
        title: Title; empty for none.
        member: Number of the member of a pack that the panel shows; None for the whole sample.
    """

    title: str = ""
    member: int | None = None


@dataclass(frozen=True, slots=True)
class TextPanel(_Titled):
    """A text.

    Attributes:
        pieces: Parts of the text, in order.
        tokens: Whether the parts are tokens.
    """

    pieces: Sequence[TextPiece]
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class SoundPanel(_Titled):
    """A sound.

    Attributes:
        samples: Mono samples, −1 to 1.
        rate: Sample rate in Hz.
    """

    samples: NDArray[np.floating]
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    def cut(self, max_bytes: int) -> "SoundPanel":
        """Return the beginning of the sound, with at most ``max_bytes`` as a file."""
        return SoundPanel(self.samples[: max(0, max_bytes - 44) // 2], self.rate, title=self.title, member=self.member)

    def encode(self) -> WebMedium:
        from penstock.media.audio.wav import wav_bytes

        return WebMedium("audio/wav", wav_bytes(np.asarray(self.samples, np.float32), self.rate))

    def peaks(self, columns: int) -> NDArray[np.floating]:
        """Return the lowest and the highest sample of each column, shape (columns, 2)."""
        from penstock.media.audio.drawn import peaks

        return peaks(self.samples, columns)

    def mel(self, width: int, height: int) -> WebMedium:
        """Return a mel spectrogram as a picture."""
        from penstock.media.audio.drawn import COLOURS, mel_shades
        from penstock.media.image.plain import plain_png

        return WebMedium("image/png", plain_png(mel_shades(self.samples, self.rate, width, height), COLOURS))


class Picture(NamedTuple):
    """A picture of a strip.

    Attributes:
        pixels: Grey or RGB pixels, uint8, shape (height, width, 1 or 3).
        note: Caption.
        is_pad: Whether it is padding, such as a repeated frame.
    """

    pixels: NDArray[np.uint8]
    note: str = ""
    is_pad: bool = False

    def thumbnail(self, side: int) -> WebMedium:
        """Return the picture with a width and height of at most ``side``."""
        from penstock.media.image.file import thumbnail_bytes

        return WebMedium(*thumbnail_bytes(self.pixels, side))


@dataclass(frozen=True, slots=True)
class PicturePanel(_Titled):
    """Pictures in a row, such as the frames of a video."""

    pictures: Sequence[Picture]


@dataclass(frozen=True, slots=True)
class CurvePanel(_Titled):
    """Values over a window of time.

    Attributes:
        times: Time of each value relative to the sample, in seconds, shape (n,).
        values: Values, shape (n, dimensions).
        is_pad: Whether each value is padding, shape (n,).
    """

    times: NDArray[np.floating]
    values: NDArray[np.floating]
    is_pad: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FieldPanel(_Titled):
    """Names and values."""

    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PackPanel(_Titled):
    """Where each member of a pack begins.

    Attributes:
        members: Numbers of the members.
        starts: Start of each, in tokens.
        ends: End of each, in tokens.
        length: Length of the pack, with its padding.
    """

    members: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    length: int


Panel = TextPanel | SoundPanel | PicturePanel | CurvePanel | FieldPanel | PackPanel
