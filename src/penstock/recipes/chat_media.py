"""The media of chat samples, as tensors or as a multimodal processor makes them. Knows no text beyond placeholders."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.config.errors import ConfigError
from penstock.media.content import OpenLink
from penstock.readers.errors import first_line
from penstock.recipes.extras import require_packages
from penstock.text.errors import Rejected
from penstock.text.expanding import expanded
from penstock.text.formats import Sample
from penstock.text.labels import Encoded
from penstock.text.rendered import Rendered
from penstock.text.texts import require_folder

if TYPE_CHECKING:
    from penstock.recipes.processor import Processor

MEDIA_PACKAGES = ("PIL", "av", "miniaudio", "soundfile", "soxr")
# Of a sample: the keys of its media, what makes a tensor of each, and the key of the batch.
_MEDIA = {
    "images": ("image", "images"),
    "videos": ("video", "videos"),
    "audios": ("audio", "audio"),
    "gen_images": ("image", "gen_images"),
    "gen_videos": ("video", "gen_videos"),
    "target_audio": ("audio", "target_audio"),
    "speaker_ref": ("speaker_ref", "speaker_ref"),
}
_SINGLE = ("target_audio", "speaker_ref")  # a list is one sound, as numbers
_CUT_WITH_TEXT = ("images", "videos", "audios")  # they stand in the text, and are cut off with it


class SampleImages(NamedTuple):
    """Images of one sample, for a multimodal processor.

    Attributes:
        pixels: of each.
        fields: what the processor made of all of them.
        texts: what stands for each in the text.
    """

    pixels: Sequence[Any]
    fields: Mapping[str, Any]
    texts: Sequence[str] = ()


class ChatMedia:
    """Makes what a batch holds of the media of samples.

    Args:
        options: of ``MediaTensors``.
        processor: a multimodal processor for images that stand in the text; None makes tensors of them, too.
    """

    def __init__(self, options: Mapping[str, Any], processor: "Processor | None" = None) -> None:
        self.options = dict(options)
        self.processor = processor

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "processor": self.processor}

    @cached_property
    def _tensors(self) -> Any:
        from penstock.media.tensors import MediaTensors  # imports torch

        given = self.options.get("image_processor")
        if not isinstance(given, str):
            return MediaTensors(**self.options)
        return MediaTensors(**{**self.options, "image_processor": _image_processor(given)})

    def load(self) -> None:
        """Load an image processor that is named, so that a wrong name is an error before the first image.

        Raises:
            ConfigError: If it can't be loaded.
        """
        if isinstance(self.options.get("image_processor"), str):
            _ = self._tensors

    @property
    def image_processor(self) -> Any:
        """What normalised the images of a batch."""
        return self._tensors.image_processor if self.processor is None else self.processor.processor.image_processor

    def tensors(self, sample: Sample, tokens: Encoded, open_link: OpenLink) -> dict[str, list[Any]]:
        """Return tensors of the media that are left after a long text was cut.

        Raises:
            BadMedia: If one can't be used.
        """
        if _MEDIA.keys().isdisjoint(sample):
            return {}
        cut = {kind: sum(medium.kind == kind for medium in tokens.cut_media) for kind in ("image", "video", "audio")}
        found: dict[str, list[Any]] = {}
        for key, (kind, name) in _MEDIA.items():
            if self.processor is not None and key in _CUT_WITH_TEXT:
                continue
            listed = _listed(sample, key)
            if key in _CUT_WITH_TEXT:
                listed = listed[: len(listed) - cut[kind]]
            if listed:
                require_packages("chat with media", "chat", *MEDIA_PACKAGES)
                found[name] = [getattr(self._tensors, kind)(value, open_link) for value in listed]
        return found

    def decoded(self, sample: Sample, open_link: OpenLink) -> SampleImages | None:
        """Return the images that stand in the text, for a multimodal processor; None without one.

        Raises:
            BadMedia: If one can't be used.
            Rejected: If there are other media in the text.
        """
        images = self._images(sample)
        if images is None:
            return None
        if not images:
            return SampleImages((), {})
        from penstock.media.image.pixels import image_pixels

        assert self.processor is not None
        pixels = [image_pixels(image, open_link) for image in images]
        processed = self.processor.images(pixels)
        return SampleImages(pixels, processed.fields, processed.texts)

    def measured(self, sample: Sample, rendered: Rendered, open_link: OpenLink) -> Rendered:
        """Return a text with all the tokens that stand for its images, from their headers alone.

        Raises:
            BadMedia: If an image can't be used.
            Rejected: If there are other media in the text, or more or fewer placeholders than images.
        """
        images = self._images(sample)
        if images is None:
            return rendered
        if not images:
            return self.expanded(rendered, ())
        from penstock.media.image.pixels import image_size

        assert self.processor is not None
        return self.expanded(rendered, self.processor.texts_of([image_size(image, open_link) for image in images]))

    def expanded(self, rendered: Rendered, texts: Sequence[str]) -> Rendered:
        """Return a text with all the tokens that stand for its images."""
        assert self.processor is not None
        return expanded(rendered, self.processor.placeholders, {"image": texts})

    def kept(self, images: SampleImages, cut: int) -> Mapping[str, Any]:
        """Return what the processor makes of images without the last ones, which were cut off with the text.

        Raises:
            Rejected: If it would then write something else for those that are left.
        """
        if not cut:
            return images.fields
        left = images.pixels[: len(images.pixels) - cut]
        if self.processor is None or not left:
            return {}
        processed = self.processor.images(left)
        if processed.texts != list(images.texts[: len(left)]):
            raise Rejected("images that were cut off with the text, and change the tokens of those before them")
        return processed.fields

    def _images(self, sample: Sample) -> list[Any] | None:
        if self.processor is None:
            return None
        for key in ("videos", "audios"):
            if _listed(sample, key):
                raise Rejected(f"has {key}, and `processor` takes images only")
        return _listed(sample, "images")


def _image_processor(name: str) -> Any:
    require_folder("chat.image_processor", name, "image processor", ("*processor_config.json",))
    from transformers import AutoImageProcessor

    load: Any = AutoImageProcessor.from_pretrained  # it has no types
    try:
        return load(name, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(f"chat.image_processor: {name!r} can't be loaded: {first_line(error)}") from None


def _listed(sample: Sample, key: str) -> list[Any]:
    values: Any = sample.get(key)
    if values is None:
        return []
    return list(values) if key not in _SINGLE and isinstance(values, list | tuple) else [values]
