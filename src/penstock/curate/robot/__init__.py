"""Robot data: writing small datasets, checking large ones."""

from typing import TYPE_CHECKING

from penstock.runtime.exports import lazy_exports

if TYPE_CHECKING:
    from penstock.curate.robot.writer import Episode, Layout, write_dataset

__all__ = ["Episode", "Layout", "write_dataset"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "penstock.curate.robot.writer": ["Episode", "Layout", "write_dataset"],
        },
    )
