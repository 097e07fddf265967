"""What ``_process_sample`` does: media to tensors, in steps that a subclass may override. Knows no text."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from penstock.compat.multimodal.links import open_link
from penstock.media.content import content
from penstock.media.errors import BadMedia
from penstock.media.image.pixels import Pixels, image_pixels
from penstock.media.tensors import SPEAKER_SECONDS, MediaTensors
from penstock.media.video.frames import video_frames
from penstock.text.mediakinds import GEN_IMAGE, GEN_VIDEO, IMAGE, SOUNDS, SPEAKER, VIDEO, MediaKind

_MOST_FRAMES = 1_000_000
_IN_ORDER = (IMAGE, GEN_IMAGE, VIDEO, GEN_VIDEO, *SOUNDS)  # on which random numbers of hooks depend


class VideoFile(Sequence[Pixels]):
    """The frames of a video file, RGB, uint8 [H, W, 3]. All are decoded when the first is read.

    Args:
        data: Content of the file.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        """Return the bytes of the file."""
        return self._data

    @cached_property
    def _frames(self) -> list[Pixels]:
        frames = video_frames(self._data, _MOST_FRAMES, lambda frame: frame)
        return list({id(frame): frame for frame in frames}.values())  # the last one was repeated

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: Any) -> Any:
        return self._frames[index]


class MediaSteps:
    """Makes tensors of the media of samples. Its attributes are arguments of the dataset."""

    image_processor: Any
    image_size: int
    video_size: int
    max_video_frames: int
    use_raw_waveform: bool
    voice_processor: Any
    audio_sample_rate: int
    audio_max_length: int
    audio_n_mels: int

    def _process_sample(self, sample: dict[str, Any], dtype: str) -> dict[str, Any] | None:  # noqa: ARG002
        """Make tensors of the media of a sample.

        Args:
            sample: What its format function returned. Paths in it are absolute.
            dtype: Dtype of its dataset.

        Returns:
            The sample; None if it can't be used, and another one is to take its place.
        """
        for kind in _IN_ORDER:
            value = sample.get(kind.document_key)
            if value is not None:
                sample[kind.document_key] = self._medium(kind, value)
        return sample

    def _medium(self, kind: MediaKind, value: Any) -> Tensor | list[Tensor]:
        if kind.modality == "image":
            return self._images(value)
        if kind.modality == "video":
            return self._video(value)
        return self._sound(value, SPEAKER_SECONDS if kind is SPEAKER else self.audio_max_length / 100)

    def _load_image(self, path: str) -> Any:
        """Return the image that a record names.

        Args:
            path: Path or URL of the image.

        Returns:
            A PIL image. That of a subclass may be anything that :func:`penstock.media.image.pixels.image_pixels` takes.

        Raises:
            BadMedia: If it can't be used.
        """
        return Image.fromarray(image_pixels(path, open_link))

    def _load_video(self, path: str) -> Any:
        """Return the video that a record names.

        Args:
            path: Path or URL of the video.

        Returns:
            Its frames; they are decoded where they are needed. A subclass may return what its ``_sample_frames`` takes,
            or anything that :func:`penstock.media.video.frames.video_frames` takes.

        Raises:
            BadMedia: If it can't be used.
        """
        return VideoFile(content(path, open_link))

    def _sample_frames(self, video: Any, max_frames: int) -> Any:
        """Return the frames of a video that are used, at equal distances.

        Args:
            video: What ``_load_video`` returned, or the value in the record.
            max_frames: Number of frames. The last frame of a shorter video is repeated.

        Raises:
            BadMedia: If it can't be used.
        """
        return video_frames(video, max_frames, lambda frame: frame, open_link)

    def _load_audio(self, path: str) -> tuple[Any, int]:
        """Return the sound that a record names, and its sample rate.

        Called only if a subclass overrides it. Otherwise only the part that is used is decoded.

        Args:
            path: Path or URL of the sound.

        Returns:
            Mono sound at ``audio_sample_rate``, float32 [n], no longer than is used. A subclass may return [n] or
            [channels, n], of any length and rate.

        Raises:
            BadMedia: If it can't be used.
        """
        longest = max(SPEAKER_SECONDS, self.audio_max_length / 100)
        return self._media.waveform(path, longest, open_link), self.audio_sample_rate

    def _compute_mel(self, waveform: Tensor) -> Tensor:
        """Return the log-mel spectrogram of a sound, [n_mels, frames]. Called where ``use_raw_waveform`` is False.

        Args:
            waveform: Samples at ``audio_sample_rate``, float32 [n].
        """
        return self._media.mel(waveform)

    def _images(self, value: Any) -> Tensor | list[Tensor]:
        if _is_several(value):
            return [self._image(each) for each in value]
        return self._image(value)

    def _image(self, value: Any) -> Tensor:
        value = _named(value)
        return self._media.image(self._load_image(value) if isinstance(value, str) else value, open_link)

    def _video(self, value: Any) -> Tensor:
        value = _named(value)
        if isinstance(value, str):
            value = self._load_video(value)
        elif isinstance(value, bytes | Mapping):
            value = VideoFile(content(value, open_link))
        frames = self._sample_frames(value, self.max_video_frames)
        if not len(frames):
            raise BadMedia("_sample_frames returned no frames")
        return torch.stack([self._media.frame(image_pixels(frame, open_link)) for frame in frames])

    def _sound(self, value: Any, seconds: float) -> Tensor:
        value = _named(value)
        if isinstance(value, str) and type(self)._load_audio is not MediaSteps._load_audio:
            samples, rate = self._load_audio(value)
            value = {"array": samples, "sampling_rate": rate}
        waveform = self._media.waveform(value, seconds, open_link)
        return waveform if self.use_raw_waveform else self._compute_mel(waveform)

    @property
    def _media(self) -> MediaTensors:
        voice = self.voice_processor
        return MediaTensors(
            image_processor=self.image_processor,
            image_size=self.image_size,
            video_size=self.video_size,
            max_video_frames=self.max_video_frames,
            use_raw_waveform=self.use_raw_waveform,
            voice_processor=voice if hasattr(voice, "extract_mel") else None,
            audio_sample_rate=self.audio_sample_rate,
            audio_max_length=self.audio_max_length,
            audio_n_mels=self.audio_n_mels,
        )


def _named(value: Any) -> Any:
    """Return the path of a medium that a record names as Hugging Face's datasets do; any other value as it is."""
    if isinstance(value, Mapping) and isinstance(value.get("path"), str) and set(value) <= {"bytes", "path"}:
        return value["path"] if value.get("bytes") is None else value
    return value


def _is_several(value: Any) -> bool:
    """Return whether a value is a list of images, and not one image as nested lists of numbers."""
    return isinstance(value, list | tuple) and bool(value) and not isinstance(value[0], int | float | list | tuple)
