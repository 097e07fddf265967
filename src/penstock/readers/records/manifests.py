"""Manifests of sources of records: of an index that is complete, and of one that grows."""

import numpy as np

from penstock.manifest.growing import GrowingManifest
from penstock.manifest.manifest import Manifest
from penstock.readers.records.sourceindex import SourceIndex


class RecordManifest(Manifest):
    """One source whose index is complete; see ``Manifest``.

    Args:
        name: of the source.
        index: its items.
        fingerprint: of all that the order depends on.
        limit: at most how many items an epoch has; None for all.
        modality: of the source.
    """

    def __init__(self, name: str, index: SourceIndex, *, fingerprint: str, limit: int | None, modality: str) -> None:
        index.finish()
        self._index = index
        super().__init__(
            [name],
            [np.diff(index.starts(0))],
            fingerprints=[fingerprint],
            amounts={"tokens": [index.tokens]},
            limits=[limit],
            modalities=[modality],
        )

    def group_name(self, source: int, group: int) -> str:  # noqa: ARG002  # there is one source
        return self._index.group_path(group)


class GrowingRecordManifest(GrowingManifest):
    """One source in file order, whose index grows; see ``GrowingManifest``."""

    growing: SourceIndex

    def group_name(self, source: int, group: int) -> str:  # noqa: ARG002
        return self.growing.group_path(group)
