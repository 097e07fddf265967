"""The records of one source, opened: its store, files, links, index and manifest. Knows no format and no recipe."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from penstock.config import RemoteConfig
from penstock.manifest.manifest import Manifest, fingerprint
from penstock.media.links import Links
from penstock.pipelines.chat_hub import LocatedFiles
from penstock.pipelines.pipeline import Context
from penstock.readers.records.files.kinds import RecordFiles
from penstock.readers.records.files.recordfile import SEGMENTS
from penstock.readers.records.judging import Judge
from penstock.readers.records.knownfiles import KnownFiles, RecordSource
from penstock.readers.records.reader import GrowingRecordManifest, RecordManifest
from penstock.readers.records.sourceindex import SourceIndex
from penstock.store.remote.listed import ListedObjects
from penstock.store.remote.options import StoreOptions
from penstock.store.stores import OpenOnce, derive_from

GROUP_ITEMS = 1_024
"""Maximum number of items per group, where they are not packed."""


class OpenedRecords:
    """The records of one source.

    Args:
        name: Name of the source.
        remote: Access to a remote store.
        context: Context of the run; ``resolved`` has the located files.
    """

    def __init__(self, name: str, remote: RemoteConfig, context: Context) -> None:
        located: LocatedFiles = context.resolved
        self.name = name
        self.located = located
        self.metadata = context.scratch / "indexes"
        infos = ListedObjects(located.infos)
        self.open_store = OpenOnce(context.stores, located.store, StoreOptions(**remote.model_dump()), infos)
        derive = partial(derive_from, context.stores, self.open_store)
        self._files = RecordFiles(self.open_store, derive, self.metadata, located.medium)
        self._needs_sizes = context.needs_sizes

    def links(self, media_root: Sequence[Path], *, allow_urls: bool, allow_private: bool) -> Links:
        """Return what opens the media that records name."""
        return Links(
            open_store=self.open_store,
            media_root=tuple(media_root),
            foreign=self.located.foreign,
            allow_urls=allow_urls,
            allow_private=allow_private,
        )

    def index(
        self, judge: Judge, group_items: int, wanted: Sequence[str] = (), *, must_keep: bool = False
    ) -> SourceIndex:
        """Return the index of the records that a judge accepts.

        Args:
            judge: Decides which records are items.
            group_items: Maximum number of items per group.
            wanted: Reasons for which the config wants records left out; no warning mentions them.
            must_keep: See ``FileIndex``.
        """
        located = self.located
        source = RecordSource(
            self.name,
            self._files,
            located.paths,
            judge,
            self.metadata,
            group_items,
            tuple(wanted),
            located.versions,
            located.origin,
            must_keep,
        )
        return SourceIndex(KnownFiles(source))

    def fingerprint(self, judge_key: str, index: SourceIndex, group_items: int) -> str:
        """Return the digest of what the order of the items depends on."""
        return fingerprint(judge_key, index.content_keys(), group_items, SEGMENTS)

    def manifest(self, index: SourceIndex, own_fingerprint: str, *, limit: int | None, modality: str) -> Manifest:
        """Return the manifest, which grows with the index where the run does not need all sizes at its start."""
        make = RecordManifest if self._needs_sizes else GrowingRecordManifest
        return make(self.name, index, fingerprint=own_fingerprint, limit=limit, modality=modality)
