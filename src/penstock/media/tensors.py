"""The media of chat records as tensors, with the options of a run. Knows no text and no batch."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from penstock.media.audio.logmel import log_mel
from penstock.media.audio.sound import sound_samples
from penstock.media.audio.waveform import RATE
from penstock.media.content import OpenLink, no_links
from penstock.media.image.pixels import Pixels, image_pixels
from penstock.media.image.processor import ImageProcessor, VisionProcessor, pixel_values
from penstock.media.video.frames import video_frames

SPEAKER_SECONDS = 7.0  # duration of a voice's reference


class VoiceProcessor(Protocol):
    """Replaces our log-mel spectrogram."""

    def extract_mel(self, waveform: Tensor) -> Tensor:
        """Return the spectrogram of samples of shape (1, n), shape (1, n_mels, frames)."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class MediaTensors:
    """Makes tensors of images, videos and sounds. It pickles if the processors do.

    Attributes:
        image_processor: :class:`ImageProcessor`, or any image processor of transformers.
        image_size: Height and width of images; None for the image processor's own size.
        video_size: Height and width of video frames; None for the image processor's own size.
        max_video_frames: Frames per video.
        use_raw_waveform: Whether a sound is its samples instead of a log-mel spectrogram.
        voice_processor: Object with ``extract_mel(waveform)``, which replaces our log-mel spectrogram; None for ours.
        audio_sample_rate: Sample rate in Hz.
        audio_max_length: Longest sound, in units of 10 ms. The rest is cut off.
        audio_n_mels: Bins of the log-mel spectrogram.
    """

    image_processor: VisionProcessor = field(default_factory=ImageProcessor)
    image_size: int | None = 256
    video_size: int | None = 256
    max_video_frames: int = 32
    use_raw_waveform: bool = True
    voice_processor: VoiceProcessor | None = None
    audio_sample_rate: int = RATE
    audio_max_length: int = 1000
    audio_n_mels: int = 80

    def image(self, value: object, open_link: OpenLink = no_links) -> Tensor:
        """Return an image of a record, shape (3, size, size) for most processors.

        Args:
            value: Image as in :func:`penstock.media.image.pixels.image_pixels`.
            open_link: Function that opens paths and URLs.

        Raises:
            BadMedia: If it cannot be used.
        """
        pixels = image_pixels(value, open_link)
        return pixel_values(self.image_processor, pixels, self.image_size, self.image_size)

    def video(self, value: object, open_link: OpenLink = no_links) -> Tensor:
        """Return the frames of a video, shape (max_video_frames, 3, size, size) for most processors.

        Args:
            value: Video as in :func:`penstock.media.video.frames.video_frames`.
            open_link: Function that opens paths and URLs.

        Raises:
            BadMedia: If it cannot be used.
        """
        return torch.stack(video_frames(value, self.max_video_frames, self.frame, open_link))

    def frame(self, frame: Pixels) -> Tensor:
        """Return the image processor's result for one video frame."""
        return pixel_values(self.image_processor, frame, self.video_size, self.video_size)

    def audio(self, value: object, open_link: OpenLink = no_links) -> Tensor:
        """Return a sound of a record: samples of shape (n,), or a log-mel spectrogram of shape (n_mels, frames).

        Args:
            value: Sound as in :func:`penstock.media.audio.sound.sound_samples`.
            open_link: Function that opens paths and URLs.

        Raises:
            BadMedia: If it cannot be used.
        """
        return self._sound(value, self.audio_max_length / 100, open_link)

    def speaker_ref(self, value: object, open_link: OpenLink = no_links) -> Tensor:
        """Return the reference of a voice: the first 7 seconds of a sound, in the form of ``audio``."""
        return self._sound(value, SPEAKER_SECONDS, open_link)

    def _sound(self, value: object, seconds: float, open_link: OpenLink) -> Tensor:
        waveform = self.waveform(value, seconds, open_link)
        return waveform if self.use_raw_waveform else self.mel(waveform)

    def waveform(self, value: object, seconds: float, open_link: OpenLink = no_links) -> Tensor:
        """Return the samples of a sound, shape (n,); see :func:`penstock.media.audio.sound.sound_samples`."""
        return torch.from_numpy(sound_samples(value, seconds, self.audio_sample_rate, open_link))

    def mel(self, waveform: Tensor) -> Tensor:
        """Return the log-mel spectrogram of samples, by the voice processor if there is one."""
        if self.voice_processor is None:
            return log_mel(waveform, self.audio_n_mels, self.audio_sample_rate)
        return self.voice_processor.extract_mel(waveform[None]).squeeze(0)
