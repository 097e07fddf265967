"""The media of chat samples, as tensors or as a multimodal processor makes them. Knows no text beyond placeholders."""

from collections import Counter
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
from penstock.text.mediakinds import AUDIO, IMAGE, MEDIA_KINDS, SPEAKER, VIDEO, MediaKind
from penstock.text.rendered import Rendered
from penstock.text.texts import require_folder

if TYPE_CHECKING:
    from torch import Tensor

    from penstock.media.image.pixels import Pixels
    from penstock.media.tensors import MediaTensors
    from penstock.recipes.processor import Processor

MEDIA_PACKAGES = ("PIL", "av", "miniaudio", "soundfile", "soxr")
_SAMPLE_KEYS = frozenset(kind.sample_key for kind in MEDIA_KINDS)


class SampleImages(NamedTuple):
    """Images of one sample, for a multimodal processor.

    Attributes:
        pixels: Pixels of each image.
        fields: Tensors that the processor made from all images.
        texts: Text that stands for each image.
    """

    pixels: "Sequence[Pixels]"
    fields: "Mapping[str, Tensor]"
    texts: Sequence[str] = ()


class ChatMedia:
    """Decodes the media of samples.

    Args:
        options: Options of ``MediaTensors``.
        processor: Multimodal processor for images in the text; None makes tensors of them.
    """

    def __init__(self, options: Mapping[str, Any], processor: "Processor | None" = None) -> None:
        self.options = dict(options)
        self.processor = processor

    def __getstate__(self) -> dict[str, object]:
        return {"options": self.options, "processor": self.processor}

    @cached_property
    def _tensors(self) -> "MediaTensors":
        from penstock.media.tensors import MediaTensors  # imports torch

        given = self.options.get("image_processor")
        if not isinstance(given, str):
            return MediaTensors(**self.options)
        return MediaTensors(**{**self.options, "image_processor": _image_processor(given)})

    def load(self) -> None:
        """Load the image processor, so that a wrong name fails before the first image.

        Raises:
            ConfigError: If it can't be loaded.
        """
        if isinstance(self.options.get("image_processor"), str):
            _ = self._tensors

    def load_image_processor(self) -> Any:
        """Return the processor that normalised the images of a batch."""
        return self._tensors.image_processor if self.processor is None else self.processor.load().image_processor

    def tensors(self, sample: Sample, tokens: Encoded, open_link: OpenLink) -> "dict[str, list[Tensor]]":
        """Return tensors of the media, without those that were cut off with a long text.

        Raises:
            BadMedia: If a medium can't be used.
        """
        if _SAMPLE_KEYS.isdisjoint(sample):
            return {}
        cut = Counter(medium.kind for medium in tokens.cut_media)
        found: dict[str, list[Tensor]] = {}
        for kind in MEDIA_KINDS:
            if self.processor is not None and kind.in_text:
                continue
            listed = _listed(sample, kind)
            listed = listed[: len(listed) - cut[kind.name]] if kind.in_text else listed
            if listed:
                require_packages("chat with media", "chat", *MEDIA_PACKAGES)
                found[kind.batch_key] = [self._tensor(kind, value, open_link) for value in listed]
        return found

    def _tensor(self, kind: MediaKind, value: object, open_link: OpenLink) -> "Tensor":
        tensors = self._tensors
        if kind.modality == "image":
            return tensors.image(value, open_link)
        if kind.modality == "video":
            return tensors.video(value, open_link)
        return tensors.speaker_ref(value, open_link) if kind is SPEAKER else tensors.audio(value, open_link)

    def decoded(self, sample: Sample, open_link: OpenLink) -> SampleImages | None:
        """Return the images in the text as the multimodal processor makes them; None without a processor.

        Raises:
            BadMedia: If an image can't be used.
            Rejected: If the text has other media.
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
        """Return a text with all tokens of its images, from the image headers alone.

        Raises:
            BadMedia: If an image can't be used.
            Rejected: If the text has other media, or the numbers of placeholders and images differ.
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
        """Return a text with all tokens of its images."""
        assert self.processor is not None
        return expanded(rendered, self.processor.placeholders, {"image": texts})

    def kept(self, images: SampleImages, cut: int) -> "Mapping[str, Tensor]":
        """Return the processor's fields for images without the last ``cut`` ones, which were cut off with the text.

        Raises:
            Rejected: If the text of the remaining images would change.
        """
        if not cut:
            return images.fields
        left = images.pixels[: len(images.pixels) - cut]
        if self.processor is None or not left:
            return {}
        processed = self.processor.images(left)
        if processed.texts != list(images.texts[: len(left)]):
            raise Rejected("cutting off images with the text changes the tokens of the images before them")
        return processed.fields

    def _images(self, sample: Sample) -> list[object] | None:
        if self.processor is None:
            return None
        for kind in (VIDEO, AUDIO):
            if _listed(sample, kind):
                raise Rejected(f"has {kind.sample_key}, and `processor` takes images only")
        return _listed(sample, IMAGE)


def _image_processor(name: str) -> Any:
    require_folder("chat.image_processor", name, "image processor", ("*processor_config.json",))
    from transformers import AutoImageProcessor

    load: Any = AutoImageProcessor.from_pretrained  # it has no types
    try:
        return load(name, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(f"chat.image_processor: {name!r} can't be loaded: {first_line(error)}") from None


def _listed(sample: Sample, kind: MediaKind) -> list[object]:
    values: object = sample.get(kind.sample_key)
    if values is None:
        return []
    return list(values) if not kind.is_single and isinstance(values, list | tuple) else [values]
