"""Step -> batch: the feed, what it looks up, what it fetches ahead, and its state."""

from penstock.feed.batches import TooManyBad
from penstock.feed.feed import Feed
from penstock.feed.state import StateError
from penstock.feed.steps import Steps

__all__ = ["Feed", "StateError", "Steps", "TooManyBad"]
