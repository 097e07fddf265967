"""Sizes and versions of the listed objects of a store, as arrays that worker processes map. Knows no store."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from penstock.store.remote.remote import ObjectInfo


class ListedObjects(Mapping[str, ObjectInfo]):
    """Sizes and versions of objects, by path. A dict of a million objects would take 300 MB in every process.

    Args:
        infos: Sizes and versions, by path.
    """

    def __init__(self, infos: Mapping[str, ObjectInfo]) -> None:
        paths = sorted(infos)
        self._paths = pa.array(paths, pa.large_string())
        self._sizes = np.array([infos[path].size for path in paths], np.int64)
        self._etags = pa.array([infos[path].etag for path in paths], pa.large_string())

    def __getitem__(self, path: str) -> ObjectInfo:
        at = bisect_left(self._paths, path, key=pa.LargeStringScalar.as_py)
        if at == len(self._paths) or self._paths[at].as_py() != path:
            raise KeyError(path)
        return ObjectInfo(int(self._sizes[at]), self._etags[at].as_py())

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths.to_pylist())

    def __len__(self) -> int:
        return len(self._paths)
