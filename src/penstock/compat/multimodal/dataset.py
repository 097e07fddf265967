"""``TrueStreamingDataset``: arguments, samples and hooks of Xoron-Dev's class of this name, over a feed in rounds."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any

from penstock.compat.counted import CountedStream
from penstock.compat.multimodal import state as states
from penstock.compat.multimodal.entries import make_sources
from penstock.compat.multimodal.functions import make_formats, require_picklable
from penstock.compat.multimodal.mediasteps import MediaSteps
from penstock.compat.multimodal.pipeline import DatasetPipeline
from penstock.compat.multimodal.reader import DatasetReader
from penstock.compat.multimodal.recipe import Hooks, planned_record
from penstock.compat.multimodal.sample import tokenized
from penstock.config import ConfigError, nearest
from penstock.feed.open_feed import open_feed
from penstock.feed.planning import make_rounds
from penstock.feed.state import StateError
from penstock.media.image.processor import ImageProcessor
from penstock.plan.cut import rank_bounds
from penstock.text.formats import modality_of

_OWN_BATCH = 4  # samples made at once if the batch size is unknown: videos are large

_NUMBERS = (
    "max_length",
    "max_per_epoch",
    "max_per_dataset",
    "sample_repeat",
    "max_video_frames",
    "video_size",
    "image_size",
    "audio_n_mels",
    "audio_max_length",
    "audio_sample_rate",
)


class TrueStreamingDataset(MediaSteps, CountedStream[Any]):
    """Samples of many datasets in rounds, as an ``IterableDataset``. Each ``for`` is the next epoch.

    A subclass may override ``_process_sample``, the steps that it calls, ``_tokenize``, ``_get_modality`` and
    ``_get_iterator``. See docs/multimodal.md.

    Args:
        dataset_configs: Lists of entries by dtype. An entry has a ``name`` and a ``path``: a JSONL file with
            ``local: True``, else a dataset, with ``split`` and ``config``.
        format_functions: Functions by dtype. ``fn(sample, tokens)`` returns a dict, or None to leave out the record.
        tokenizer: Tokenizer of transformers, with a pad token.
        tokens: Special tokens by name, for the format functions.
        image_processor: Image processor of transformers. By default our own, which does what CLIP's does.
        max_length: Tokens per sample.
        max_per_epoch: Maximum number of records per epoch.
        max_per_dataset: Maximum number of records per dataset and epoch.
        sample_repeat: Number of times that each record comes, in a row.
        voice_processor: Object whose ``extract_mel(waveform)`` replaces our log-mel spectrogram.
        max_video_frames: Frames per video.
        video_size: Height and width of video frames.
        image_size: Height and width of images.
        audio_n_mels: Bins of the log-mel spectrogram.
        audio_max_length: Maximum length of a sound, in units of 10 ms.
        audio_sample_rate: Sample rate of sounds, in Hz.
        resume_state_path: File of a state to resume from, if it exists.
        use_raw_waveform: Whether sounds are waveforms. Otherwise they are log-mel spectrograms.
        modality_max_values: Maximum number of records per epoch, by modality. Other modalities have no limit.
        shuffle: Whether to shuffle each dataset. Otherwise its records come in the order of its files.
        batch_size: Batch size of the ``DataLoader``. If given, the order is the same for any number of workers.
        seed: Seed of the shuffling, and of random numbers that functions and hooks draw.
        rank: Rank of this process. By default taken from the launcher.
        world_size: Number of ranks. By default as for ``rank``.
        cache: Folder and size of the node cache, as in a config: ``{"dir": …, "size": "50GB"}``. Also keeps indexes.
        allow_urls: Whether to fetch URLs in records.
        allow_private: Whether to fetch them from private addresses, too.

    Raises:
        ConfigError: One line per problem: a dtype without a function, a missing token, a dataset that is not there.

    Examples:
        >>> from penstock.compat.multimodal import TrueStreamingDataset
        >>> from transformers import AutoTokenizer
        >>> tokenizer = AutoTokenizer.from_pretrained("tokenizer")
        >>> configs = {"text": [{"name": "tales", "path": "tales.jsonl", "local": True}]}
        >>> formats = {"text": lambda record, tokens: {"text": record["text"]}}
        >>> dataset = TrueStreamingDataset(configs, formats, tokenizer, {}, None, max_length=32)
        >>> next(iter(dataset))["input_ids"].shape
        torch.Size([32])
    """

    def __init__(
        self,
        dataset_configs: dict[str, list[dict[str, Any]]],
        format_functions: dict[str, Callable[..., Any]],
        tokenizer: Any,
        tokens: dict[str, str],
        image_processor: Any,
        max_length: int = 1024,
        max_per_epoch: int = 2000,
        max_per_dataset: int = 100,
        sample_repeat: int = 2,
        voice_processor: Any = None,
        max_video_frames: int = 32,
        video_size: int = 256,
        image_size: int = 256,
        audio_n_mels: int = 80,
        audio_max_length: int = 1000,
        audio_sample_rate: int = 16000,
        resume_state_path: str | None = None,
        use_raw_waveform: bool = True,
        modality_max_values: dict[str, int] | None = None,
        *,
        shuffle: bool = False,
        batch_size: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        cache: Mapping[str, Any] | None = None,
        allow_urls: bool = False,
        allow_private: bool = False,
    ) -> None:
        self.dataset_configs = dataset_configs
        self.format_functions = format_functions
        self.tokenizer = tokenizer
        self.tokens = tokens
        self.image_processor = ImageProcessor() if image_processor is None else image_processor
        self.max_length = max_length
        self.max_per_epoch = max_per_epoch
        self.max_per_dataset = max_per_dataset
        self.sample_repeat = sample_repeat
        self.voice_processor = voice_processor
        self.max_video_frames = max_video_frames
        self.video_size = video_size
        self.image_size = image_size
        self.audio_n_mels = audio_n_mels
        self.audio_max_length = audio_max_length
        self.audio_sample_rate = audio_sample_rate
        self.use_raw_waveform = use_raw_waveform
        self.modality_max_values = modality_max_values or {}
        self.is_dual_training = modality_max_values is not None
        self.shuffle = shuffle
        self.seed = seed
        self._check_arguments(batch_size)
        self._dataset_sources = make_sources(dataset_configs)
        self._configs = {source["name"]: source for source in self._dataset_sources}
        dtypes = [source["dtype"] for source in self._dataset_sources]
        pipeline = DatasetPipeline(
            make_formats(dtypes, format_functions, tokens),
            tokens,
            self._get_modality,
            Hooks(self._planned, self._process_sample, self._tokenize),
            seed=seed,
            allow_urls=allow_urls,
            allow_private=allow_private,
        )
        own_batch = max(1, _OWN_BATCH // sample_repeat) * sample_repeat
        feed = open_feed(
            pipelines={"multimodal": pipeline},
            recipe="multimodal",
            seed=seed,
            batch_size=batch_size or own_batch,
            sources=self._dataset_sources,
            mixture={
                "rounds": {
                    "max_per_epoch": max_per_epoch,
                    "max_per_source": max_per_dataset,
                    "max_per_modality": self._caps({self._get_modality(dtype) for dtype in dtypes}),
                    "repeat": sample_repeat,
                }
            },
            shuffle=shuffle,
            cache=cache,
            rank=rank,
            world=world_size,
        )
        super().__init__(feed, batch_size, own_batch)
        if resume_state_path is not None and os.path.exists(resume_state_path):
            self._load_streaming_state(resume_state_path)

    def _check_arguments(self, batch_size: int | None) -> None:
        problems = [
            f"{name}: must be an integer of at least 1, not {getattr(self, name)!r}"
            for name in _NUMBERS
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1
        ]
        if batch_size is not None and batch_size < 1:
            problems.append(f"batch_size: must be at least 1, or None, not {batch_size!r}")
        for name in ("tokenizer", "image_processor"):
            if not callable(getattr(self, name)):
                problems.append(f"{name}: must be an object of transformers or a function, not {getattr(self, name)!r}")
        if not isinstance(self.tokens, Mapping):
            problems.append(f"tokens: must be a dict of special tokens by name, not {self.tokens!r}")
        if getattr(self.tokenizer, "pad_token_id", 0) is None:
            problems.append(
                "tokenizer: it has no pad token; set one, such as tokenizer.pad_token = tokenizer.eos_token"
            )
        if problems:
            raise ConfigError("\n".join(problems))

    def _caps(self, modalities: set[str]) -> dict[str, int]:
        """Return the limits of the modalities in use."""
        known = sorted(modalities | set(states.MODALITIES))
        for name in self.modality_max_values:
            if name not in known:
                near = nearest(name, known) or f"; there are {', '.join(known)}"
                raise ConfigError(f"modality_max_values: there is no modality {name!r}{near}")
        given = {name: most for name, most in self.modality_max_values.items() if most not in (None, math.inf)}
        for name, most in given.items():
            if not isinstance(most, int) or most < 0:
                raise ConfigError(f"modality_max_values: {name}: must be an integer of at least 0, not {most!r}")
        if all(given.get(name) == 0 for name in modalities):
            raise ConfigError("modality_max_values: every modality of the datasets has the cap 0")
        return {name: most for name, most in given.items() if name in modalities}

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None:
            require_picklable(self.format_functions)
        return super().__getstate__()

    def __len__(self) -> int:
        """Return the number of samples per epoch on this rank, with repeats."""
        low, high = rank_bounds(self.epoch_samples, self.feed.rank, self.feed.world, uneven=True)
        return high - low

    def samples(self, batch: dict[str, Any], epoch: int) -> Iterator[Any]:  # noqa: ARG002
        """Yield the samples of a batch."""
        return iter(batch["samples"])

    def _get_modality(self, dtype: str) -> str:
        """Return what the samples of a dtype count as, for ``modality_max_values``."""
        return modality_of(dtype)

    def _get_iterator(self, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Return the records of a dataset, in the order of its files.

        The class calls it for each record that is planned, and ``config["records"]`` then yields this one alone. A
        subclass may change what ``super()`` yields, or leave it out: another record then takes its place.

        Args:
            config: Element of ``_dataset_sources``.
        """
        if "records" in config:
            return iter(config["records"])
        return self._readers[list(self._configs).index(config["name"])].records()

    def _planned(self, source: str, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return a record as ``_get_iterator`` yields it; None if it is left out."""
        return planned_record(self._get_iterator, self._configs[source], record)

    def _tokenize(self, sample: dict[str, Any]) -> Any:
        """Make the final sample: tokens, labels, media, flags. A subclass may return what its collate function takes.

        Args:
            sample: What ``_process_sample`` returned.
        """
        return tokenized(sample, self.tokenizer, self.max_length)

    @property
    def _run(self) -> states.StreamRun:
        catalog = self.feed.catalog
        rounds = make_rounds(self.feed.config, catalog)
        assert rounds is not None
        return states.StreamRun(rounds, catalog.sources, catalog.modalities, self.feed.identity)

    @property
    def _readers(self) -> list[DatasetReader]:
        readers = [part.reader for part in self.feed.catalog.parts]
        return [reader for reader in readers if isinstance(reader, DatasetReader)]

    @property
    def _streaming_state(self) -> dict[str, Any]:
        """State of what was received so far."""
        return self._state_at(self.position())

    @property
    def rejected(self) -> dict[str, dict[str, int]]:
        """Number of records left out, by dataset and reason, as far as this process has indexed them."""
        return {name: reader.rejected for name, reader in zip(self.feed.catalog.sources, self._readers, strict=True)}

    def _state_at(self, position: int) -> dict[str, Any]:
        return states.make_state(self._run, position, [reader.first for reader in self._readers])

    def _save_streaming_state(self, path: str | Path, *, batches: int | None = None) -> None:
        """Save the state of what was received so far, from which another dataset resumes exactly.

        Args:
            path: File to write.
            batches: Batches that the training loop received in this ``for``. Required if the ``DataLoader`` has
                workers, which make batches ahead.

        Raises:
            StateError: If what the loop received is not known.
        """
        states.save(path, self._state_at(self.position(batches)))

    def _load_streaming_state(self, path: str | Path) -> None:
        """Resume from a saved state: the next ``for`` finishes its epoch.

        A state of the old class has no exact place. The next ``for`` then begins an epoch at its positions.

        Args:
            path: File of the state.

        Raises:
            StateError: If it is not a state, or belongs to another run.
        """
        resumed = states.read_state(states.load(path), self._run)
        if resumed.is_old:
            if self.shuffle:
                raise StateError(f"{path}: a state of the old class goes on in file order; leave out shuffle=True")
            warnings.warn(
                f"{path} is a state of the old class: an epoch begins at its dataset_positions, counted in records "
                "that their format accepts; what was read of the interrupted epoch is not known exactly",
                UserWarning,
                stacklevel=2,
            )
        for reader, first in zip(self._readers, resumed.first, strict=True):
            reader.first = first
        self.resume_at(resumed.position)
