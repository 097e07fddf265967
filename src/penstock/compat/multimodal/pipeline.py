"""The pipeline of ``TrueStreamingDataset``: datasets in file order, and the recipe that calls its hooks."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.compat.multimodal.functions import FunctionJudge
from penstock.compat.multimodal.reader import DatasetReader
from penstock.compat.multimodal.recipe import FunctionSource, Hooks, Samples
from penstock.config import RemoteConfig, Strict
from penstock.manifest.manifest import Manifest
from penstock.pipelines.chat_files import locate_files
from penstock.pipelines.chat_hub import LocatedFiles
from penstock.pipelines.chat_records import GROUP_ITEMS, OpenedRecords
from penstock.pipelines.pipeline import BasePipeline, Context
from penstock.readers.records.files.kinds import ending
from penstock.store.remote.options import StoreOptions
from penstock.text.formats import Format

_TABLES = (".parquet", ".arrow")  # no row of them is damaged


class DatasetKeys(Strict):
    """The keys of a dataset.

    Attributes:
        title: Name of the dataset, for messages.
        dtype: Dtype, which names its format function.
        local: Whether the path is a local file.
        path: File, folder, pattern, URL, or dataset on the Hugging Face Hub.
        config: Config of a hub dataset.
        split: Split of a hub dataset or a folder.
        revision: Revision of a hub dataset.
        filter_images: Whether to leave out records without an image.
        remote: Access to a remote store.
    """

    title: str
    dtype: str
    local: bool = False
    path: str
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    filter_images: bool = False
    remote: RemoteConfig = RemoteConfig()


class NoOptions(Strict):
    """The pipeline has no section in a config: the dataset gives it what it needs."""


class DatasetPipeline(BasePipeline[DatasetKeys, Samples]):
    """Opens datasets; see ``pipelines.pipeline.Pipeline``.

    Args:
        formats: Formats by dtype.
        tokens: Special tokens for format functions.
        modality: Function from a dtype to its modality.
        hooks: Hooks of the dataset.
        seed: Seed of random numbers that functions and hooks draw.
        allow_urls: Whether to fetch URLs in records.
        allow_private: Whether to fetch them from private addresses, too.
    """

    options = NoOptions
    source = DatasetKeys

    def __init__(
        self,
        formats: Mapping[str, Format],
        tokens: Mapping[str, str],
        modality: Callable[[str], str],
        hooks: Hooks,
        *,
        seed: int,
        allow_urls: bool,
        allow_private: bool,
    ) -> None:
        self._formats = formats
        self._tokens = tokens
        self._modality = modality
        self._hooks = hooks
        self._seed = seed
        self._allow_urls = allow_urls
        self._allow_private = allow_private

    def recipe(self, options: NoOptions) -> Samples:  # noqa: ARG002
        return Samples(self._hooks, self._seed)

    def resolve(self, source: DatasetKeys) -> LocatedFiles:
        if source.local:  # JSONL, whatever it is named
            return LocatedFiles(os.path.dirname(source.path) or ".", (os.path.basename(source.path),))
        options = StoreOptions(**source.remote.model_dump())
        return locate_files(source.path, options, config=source.config, split=source.split, revision=source.revision)

    def open(self, source: DatasetKeys, needs: Any, context: Context) -> tuple[Manifest, DatasetReader]:  # noqa: ARG002
        records = OpenedRecords(source.title, source.remote, context)
        format = self._formats[source.dtype]
        located = records.located
        judge = FunctionJudge(
            format,
            self._tokens,
            needs_image=source.filter_images,
            reads_all=any(ending(path) not in _TABLES for path in located.paths),
        )
        index = records.index(judge, GROUP_ITEMS)
        own = records.fingerprint(judge.key, index, GROUP_ITEMS)
        manifest = records.manifest(index, own, limit=None, modality=self._modality(source.dtype))
        links = records.links(
            () if located.foreign else (Path("/"),),  # as the module does
            allow_urls=self._allow_urls,
            allow_private=self._allow_private,
        )
        return manifest, DatasetReader(manifest, index, FunctionSource(format, self._tokens, records.open_store, links))
