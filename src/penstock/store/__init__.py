"""Bytes: remote stores, the node cache, local folders."""

from typing import TYPE_CHECKING

from penstock.runtime.exports import lazy_exports

if TYPE_CHECKING:
    from penstock.store.cache.derived import DerivedStore, Maker, piece_path
    from penstock.store.cache.shards import ShardCache
    from penstock.store.extents import Extent, Unit
    from penstock.store.remote.options import StoreOptions

__all__ = ["DerivedStore", "Extent", "Maker", "ShardCache", "StoreOptions", "Unit", "piece_path"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "penstock.store.cache.derived": ["DerivedStore", "Maker", "piece_path"],
            "penstock.store.cache.shards": ["ShardCache"],
            "penstock.store.extents": ["Extent", "Unit"],
            "penstock.store.remote.options": ["StoreOptions"],
        },
    )
