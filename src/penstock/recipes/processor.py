"""A multimodal processor of transformers, image by image: the text and the tensors of an image.

Knows no record, no row and no plan. What a model family does with images is found by asking its processor.
"""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import pad

from penstock.config.errors import ConfigError
from penstock.media.errors import BadMedia
from penstock.media.image.pixels import Pixels
from penstock.readers.errors import first_line
from penstock.runtime.torch_threads import one_torch_thread
from penstock.text.labels import Ints
from penstock.text.texts import require_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Size = tuple[int, int]
"""Height and width of an image."""

_OF_TEXT = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "text_replacement_offsets")
_KINDS = {"image": 1, "video": 2, "audio": 3}  # as transformers numbers them in mm_token_type_ids
_PROBED = ((56, 84), (420, 300))
_SIZES = ((28, 28), (100, 75), (224, 224), (336, 448), (480, 640), (100, 1500), (1080, 1920))
_LARGE_SIZES = ((1600, 1200), (2000, 3000), (4000, 4000), (6000, 8000))  # only where they need not be processed
_MAX_KEPT_SIZES = 1 << 16


class Processed(NamedTuple):
    """Texts and tensors of the images of one sample.

    Attributes:
        texts: Text that stands for each image.
        fields: Tensors for the model.
    """

    texts: list[str]
    fields: dict[str, Tensor]


class Processor:
    """Makes the image inputs of a multimodal model. Thread-safe. It pickles if ``given`` does.

    Args:
        given: Processor of transformers, or the folder or hub model to load one from.
    """

    def __init__(self, given: Any) -> None:
        self._given = given
        self._known: dict[tuple[Size, ...], list[str]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_given": self._given, "_known": {}}

    def load(self) -> Any:
        """Return the processor, loaded once per process.

        Raises:
            ConfigError: If it can't be loaded.
        """
        return self._processor

    @cached_property
    def _processor(self) -> Any:
        if not isinstance(self._given, str):
            return _apart(self._given)
        require_folder("chat.processor", self._given, "processor", ("*processor_config.json",))
        from transformers import AutoProcessor

        load: Any = AutoProcessor.from_pretrained  # it has no types
        try:
            return _apart(load(self._given, trust_remote_code=False))
        except ImportError as error:
            raise ConfigError(_needs_package(self._given, error)) from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"chat.processor: {self._given!r} can't be loaded: {first_line(error)}") from None

    def load_tokenizer(self) -> "PreTrainedTokenizerFast":
        """Return a copy of the tokenizer, with the chat template of the processor."""
        tokenizer = getattr(self._processor, "tokenizer", None)
        if tokenizer is None:
            raise ConfigError(f"chat.processor: {type(self._processor).__name__} has no tokenizer")
        own: PreTrainedTokenizerFast = copy.deepcopy(tokenizer)  # the processor sets padding and truncation of its own
        own.chat_template = getattr(self._processor, "chat_template", None) or own.chat_template
        return own

    @cached_property
    def placeholders(self) -> dict[str, str]:
        """The placeholder of each kind of medium in a text."""
        found = {kind: getattr(self._processor, f"{kind}_token", None) for kind in _KINDS}
        if not found["image"]:
            name = type(self._processor).__name__
            raise ConfigError(f"chat.processor: {name} has no image token; `processor` is for models that take images")
        return {kind: str(token) for kind, token in found.items() if token}

    @cached_property
    def key(self) -> str:
        """A digest of all that lengths depend on: the texts of images of many sizes.

        The JSON of a processor is no help: a release of transformers may give a value another name or default.
        """
        with one_torch_thread():  # a process that forks must not have started more
            try:
                sizes = _SIZES + _LARGE_SIZES if self._repeats else _SIZES
                texts = [self._known_texts(*each) for each in (_PROBED, *((size,) for size in sizes))]
            except ConfigError:  # a run without images can do with such a processor
                texts = []
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]

    def _known_texts(self, *sizes: Size) -> list[str] | None:
        try:
            return self.texts_of(sizes)
        except BadMedia:
            return None

    def images(self, pixels: Sequence[Pixels]) -> Processed:
        """Return the texts and tensors of the images of one sample.

        Raises:
            BadMedia: If the processor rejects an image.
        """
        _ = self._of_blank_images  # fails early if the processor rejects every image
        try:
            return self._processed([Image.fromarray(each) for each in pixels])
        except ValueError as error:
            raise self._refusal([each.shape[:2] for each in pixels], error) from error

    def texts_of(self, sizes: Sequence[Size]) -> list[str]:
        """Return the texts of the images of one sample, from their sizes alone.

        Args:
            sizes: Height and width of each image.

        Raises:
            BadMedia: If the processor rejects images of these sizes.
        """
        if self._looks_at_one:
            return [text for size in sizes for text in self._texts_of((size,))]
        return self._texts_of(tuple(sizes))

    def _texts_of(self, sizes: tuple[Size, ...]) -> list[str]:
        known = self._known.get(sizes)
        if known is None:
            try:
                known = [self._repeated(*size) for size in sizes] if self._repeats else self._of_blank(sizes).texts
            except ValueError as error:
                raise self._refusal(sizes, error) from error
            if len(self._known) < _MAX_KEPT_SIZES:
                self._known[sizes] = known
        return known

    def _refusal(self, sizes: Sequence[Size], error: ValueError) -> BadMedia:
        name = type(self._processor).__name__
        shown = ", ".join(f"{width} × {height}" for height, width in sizes)
        return BadMedia(f"{name} refuses images of {shown}: {error}", f"{name} refuses images of this size")

    @cached_property
    def _looks_at_one(self) -> bool:
        """Whether the text of an image does not depend on the other images of the sample."""
        together = self._of_blank_images.texts
        return self._repeats or together == [text for size in _PROBED for text in self._of_blank((size,)).texts]

    @cached_property
    def _of_blank_images(self) -> Processed:
        """Texts and tensors of a sample with two images that every processor accepts.

        Raises:
            ConfigError: If the processor rejects every image.
        """
        try:
            return self._of_blank(_PROBED)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"chat.processor: {type(self._processor).__name__} can't process a plain image: "
                f"{type(error).__name__}: {first_line(error)}; its processor_config.json may lack a value, "
                "such as patch_size"
            ) from error

    @cached_property
    def _repeats(self) -> bool:
        """Whether the text of an image is its placeholder repeated: then only the count is asked for (µs)."""
        made = self._of_blank_images
        if not hasattr(self._processor, "_get_num_multimodal_tokens"):
            return False
        return made.texts == [self._repeated(*size) for size in _PROBED]

    def _repeated(self, height: int, width: int) -> str:
        [count] = self._processor._get_num_multimodal_tokens(image_sizes=[(height, width)]).num_image_tokens
        return self.placeholders["image"] * int(count)

    def _of_blank(self, sizes: Sequence[Size]) -> Processed:
        return self._processed([Image.new("RGB", (width, height)) for height, width in sizes])

    def _processed(self, images: list[Image.Image]) -> Processed:
        made = self._processor(
            text=[self.placeholders["image"] * len(images)],
            images=[images],
            return_tensors="pt",
            text_kwargs={
                "return_text_replacement_offsets": True,
                "return_mm_token_type_ids": False,
                "padding": False,
                "truncation": False,
            },
        )
        if "text_replacement_offsets" not in made:
            raise ConfigError(
                f"chat.processor: {type(self._processor).__name__} of this version of transformers does not say what "
                "it writes for an image; use transformers 5.20 or later, or a processor with replace_image_token"
            )
        texts = [each["replacement"] for each in made["text_replacement_offsets"][0]]
        fields = {name: value for name, value in made.items() if name not in _OF_TEXT and isinstance(value, Tensor)}
        return Processed(texts, fields)

    @cached_property
    def _nested(self) -> frozenset[str]:
        """Fields with one row per sample, for all of its images. Other fields have rows per image or patch.

        A single number per sample, such as the image count, is not a row.
        """
        fields = self._of_blank_images.fields
        return frozenset(name for name, value in fields.items() if value.shape[0] == 1 and value.ndim > 1)

    def combined(self, samples: Sequence[Mapping[str, Tensor]], rows: Sequence[int]) -> dict[str, Tensor]:
        """Return the fields of several samples as those of one batch.

        Args:
            samples: Fields of each sample, as ``images`` returned them.
            rows: Row of each sample.
        """
        names = dict.fromkeys(name for fields in samples for name in fields)
        return {name: self._combined(name, [fields[name] for fields in samples], rows) for name in names}

    def _combined(self, name: str, values: list[Tensor], rows: Sequence[int]) -> Tensor:
        if name in self._nested:
            by_row: dict[int, list[Tensor]] = {}
            for row, value in zip(rows, values, strict=True):
                by_row.setdefault(row, []).append(value[0])
            return torch.stack(_alike([torch.cat(_alike(each, 1)) for each in by_row.values()], 0))
        return torch.cat(_alike(values, 1))

    @cached_property
    def kinds_name(self) -> str | None:
        """Name of the model's input for token kinds; None if it has none."""
        names = self._processor.model_input_names
        if "mm_token_type_ids" in names:
            return "mm_token_type_ids"
        if "token_type_ids" not in names:
            return None
        height, width = _PROBED[0]
        made = self._processor(text=[self.placeholders["image"]], images=[[Image.new("RGB", (width, height))]])
        is_kinds = np.array_equal(made.get("token_type_ids", ()), self.kinds(np.array(made["input_ids"])))
        return "token_type_ids" if is_kinds else None  # of other models these tell texts apart

    def kinds(self, input_ids: Ints) -> Ints:
        """Return the kind number of each token, 0 for text."""
        kinds = np.zeros_like(input_ids)
        for kind, number in _KINDS.items():
            ids = [each for each in getattr(self._processor, f"{kind}_token_ids", ()) if each is not None]
            kinds[np.isin(input_ids, ids)] = number
        return kinds

    @property
    def merge_size(self) -> int | None:
        """Patches per token, in height and in width; None without multimodal rotary embeddings."""
        if "image_grid_thw" not in self._processor.model_input_names:
            return None
        return int(self._processor.image_processor.merge_size)


def _needs_package(name: str, error: ImportError) -> str:
    """Return the message for a processor that needs a missing package."""
    missing = first_line(error).partition(". ")[0]
    advice = " (pip install torchvision)" if "orchvision" in missing else ""
    return f"chat.processor: {name!r} needs a package that is not installed{advice}: {missing}"


def _apart(processor: Any) -> Any:
    """Return a processor with a copy of its tokenizer: changing padding concurrently raises."""
    if getattr(processor, "tokenizer", None) is None:
        return processor
    own = copy.copy(processor)
    own.tokenizer = copy.deepcopy(processor.tokenizer)
    backend = getattr(own.tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_padding()
        backend.no_truncation()
    return own


def _alike(values: Sequence[Tensor], first: int) -> list[Tensor]:
    """Return tensors with zeros added at the end of each dimension from ``first`` on, so that their shapes agree."""
    largest = [max(sizes) for sizes in zip(*(value.shape[first:] for value in values), strict=True)]
    return [_grown(value, largest) for value in values]


def _grown(value: Tensor, sizes: Sequence[int]) -> Tensor:
    missing = [size - own for size, own in zip(sizes, value.shape[len(value.shape) - len(sizes) :], strict=True)]
    if not any(missing):
        return value
    return pad(value, [side for each in reversed(missing) for side in (0, each)])
