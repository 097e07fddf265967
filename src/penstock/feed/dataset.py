"""A map-style dataset whose index is the step. Refuses what other libraries would do wrong with it."""

import sys
from abc import ABC, abstractmethod
from typing import Any, NoReturn

from penstock.feed.steps import Steps
from penstock.runtime.callers import module_of


class StepDataset(ABC):
    """A dataset of whole batches, of which each rank gets its own part already.

    ``DataLoader(dataset, batch_size=None, sampler=…)`` works. Loaders that would collate batches, divide steps among
    the ranks or begin again at step 0 raise an error that says what to use instead.
    """

    @property
    @abstractmethod
    def world(self) -> int:
        """Number of ranks."""

    @abstractmethod
    def remaining(self, start: int = 0) -> Steps:
        """Return the steps of the run from ``start`` on."""

    @abstractmethod
    def __getitem__(self, step: int) -> Any: ...

    def __len__(self) -> int:
        if self.world > 1 and module_of(sys._getframe(1)) == "torch.utils.data.distributed":
            raise RuntimeError(
                "a DistributedSampler would divide the steps among the ranks, and each rank has its own part of every "
                "step already; pass sampler=feed.steps() to the DataLoader, or use feed.loader()"
            )
        return len(self.remaining())

    def set_epoch(self, _: int) -> NoReturn:
        """Raise ``RuntimeError``. Only loaders that Accelerate prepared call this, and they would lose batches.

        ``accelerator.prepare`` replaces the sampler of a ``DataLoader``, and divides its steps among the ranks.
        """
        raise RuntimeError(
            "a DataLoader over a feed can't be passed to accelerator.prepare: the feed gives each rank its own batches "
            "already; iterate over feed.loader(), and save it with accelerator.register_for_checkpointing(loader); "
            "instead of transformers' Trainer use FeedTrainer of penstock.integrations.transformers"
        )

    def __getitems__(self, steps: list[int]) -> NoReturn:
        """Refuse a ``DataLoader`` that would collate several batches into one."""
        raise TypeError(
            "a feed makes whole batches: pass batch_size=None and sampler=feed.steps() to the DataLoader, or use "
            "feed.loader(); for a Trainer see penstock.integrations.transformers"
        )

    def __iter__(self) -> NoReturn:
        # Without this method, trainers would take feed[0], feed[1], … and begin again at step 0 when they resume.
        raise RuntimeError(
            "a feed is a function of the step; iterate over feed.loader(), "
            "or in Lightning over penstock.integrations.lightning.PenstockDataModule(feed)"
        )
