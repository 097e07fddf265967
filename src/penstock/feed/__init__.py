"""Step -> batch: the feed, what it looks up, what it fetches ahead, and its state."""

from penstock.feed.feed import Feed

__all__ = ["Feed"]
