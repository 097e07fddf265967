"""Walking a feed: workers, order, state."""

from penstock.loader.loader import Loader
from penstock.loader.processes import WorkerDied

__all__ = ["Loader", "WorkerDied"]
