"""Walking a feed: workers, order, state."""

from penstock.loader.loader import Loader

__all__ = ["Loader"]
