"""The kinds of media of a sample, and their keys in samples, batches and token dicts. Decodes nothing.

Formats and the type ``Sample`` write the keys out; ``tests/text/test_mediakinds.py`` compares them with this table.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class MediaKind:
    """One kind of media.

    Attributes:
        name: Name of the kind in ``Medium.kind``.
        modality: Decoder that it needs.
        sample_key: Key of a ``Sample``.
        document_key: Key of the dict that a format function of the multimodal data module returns.
        batch_key: Key of a batch.
        stem: Beginning of the other keys of a batch, such as ``image_rows``.
        tokens: Keys of the start and the end token in a ``tokens`` dict; empty if no tokens stand for it.
        in_text: Whether it is part of a message: it stands in the text, and is cut off with it.
        is_single: Whether a sample has at most one; a list is then one sound as numbers.
    """

    name: str
    modality: Literal["image", "video", "audio"]
    sample_key: str
    document_key: str
    batch_key: str
    stem: str
    tokens: tuple[str, ...] = ()
    in_text: bool = False
    is_single: bool = False

    @property
    def rows_key(self) -> str:
        """Key of a batch: the row of each medium."""
        return f"{self.stem}_rows"

    @property
    def lengths_key(self) -> str:
        """Key of a batch: the length of each sound before padding."""
        return f"{self.stem}_lengths"


IMAGE = MediaKind(
    name="image",
    modality="image",
    sample_key="images",
    document_key="image",
    batch_key="images",
    stem="image",
    tokens=("image_start", "image_end"),
    in_text=True,
)
VIDEO = MediaKind(
    name="video",
    modality="video",
    sample_key="videos",
    document_key="video",
    batch_key="videos",
    stem="video",
    tokens=("video_start", "video_end"),
    in_text=True,
)
AUDIO = MediaKind(
    name="audio",
    modality="audio",
    sample_key="audios",
    document_key="audio",
    batch_key="audio",
    stem="audio",
    tokens=("audio_start", "audio_end"),
    in_text=True,
)
GEN_IMAGE = MediaKind(
    name="gen_image",
    modality="image",
    sample_key="gen_images",
    document_key="gen_images",
    batch_key="gen_images",
    stem="gen_image",
    tokens=("gen_image", "gen_image_end"),
)
GEN_VIDEO = MediaKind(
    name="gen_video",
    modality="video",
    sample_key="gen_videos",
    document_key="gen_videos",
    batch_key="gen_videos",
    stem="gen_video",
    tokens=("gen_video", "gen_video_end"),
)
GEN_AUDIO = MediaKind(
    name="gen_audio",
    modality="audio",
    sample_key="target_audio",
    document_key="target_audio",
    batch_key="target_audio",
    stem="target_audio",
    tokens=("gen_audio", "gen_audio_end"),
    is_single=True,
)
SPEAKER = MediaKind(
    name="speaker_ref",
    modality="audio",
    sample_key="speaker_ref",
    document_key="speaker_ref",
    batch_key="speaker_ref",
    stem="speaker_ref",
    is_single=True,
)

MEDIA_KINDS = (IMAGE, VIDEO, AUDIO, GEN_IMAGE, GEN_VIDEO, GEN_AUDIO, SPEAKER)
PICTURES = tuple(kind for kind in MEDIA_KINDS if kind.modality != "audio")
SOUNDS = tuple(kind for kind in MEDIA_KINDS if kind.modality == "audio")
IN_TEXT = tuple(kind for kind in MEDIA_KINDS if kind.in_text)
