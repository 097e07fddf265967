"""Batches of a feed as transformers' Trainer takes them: by number, with the fields that a model takes."""

import inspect
import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader
from transformers.trainer_utils import unwrap_peft_model

from penstock.feed import Feed
from penstock.feed.batches import Batch
from penstock.loader import Loader

log = logging.getLogger(__name__)

_VARIABLE_LENGTHS = {  # transformers' names, as DataCollatorWithFlattening has them
    "cu_seq_lens_q": "cu_seqlens",
    "cu_seq_lens_k": "cu_seqlens",
    "max_length_q": "max_seqlen",
    "max_length_k": "max_seqlen",
}


class ModelInputs(dict[str, Any]):
    """The fields of a batch that a model takes.

    Attributes:
        batch: Batch of the feed, with its ``step`` and ``ids``, on the CPU; empty if a subclass of the trainer made
            other inputs.
    """

    batch: Mapping[str, Any] = {}  # never changed: each object gets its own


class UnitInputs(list[ModelInputs]):
    """Inputs of all batches that a rank has in a step, in batches by length."""


class ForwardFields:
    """Selects the fields of batches that a model takes.

    Args:
        model: Model whose ``forward`` names them. One with ``**kwargs`` takes those for variable lengths as well.
    """

    def __init__(self, model: Any) -> None:
        unwrap: Any = unwrap_peft_model  # it has no types
        model = unwrap(model)
        self._model = type(model).__name__
        parameters = inspect.signature(type(model).forward).parameters.values()
        self._names = [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
        if len(self._names) < len(parameters):
            self._names += _VARIABLE_LENGTHS
        self._warned = False

    def of(self, batch: Batch) -> ModelInputs:
        """Return the fields of a batch that the model takes.

        Raises:
            ValueError: If there is none.
        """
        fields = batch | {name: batch[own] for name, own in _VARIABLE_LENGTHS.items() if own in batch}
        inputs = ModelInputs((name, fields[name]) for name in self._names if name in fields)
        if not inputs:
            raise ValueError(
                f"{self._model}.forward takes {', '.join(self._names)}, and the batch has none of these: "
                f"it has {', '.join(batch)}"
            )
        if "loss_weights" in batch and "loss_weights" not in inputs and not self._warned:
            self._warned = True
            log.warning(
                "%s.forward takes no loss_weights: all labels weigh the same, "
                'unless your compute_loss uses inputs.batch["loss_weights"]',
                self._model,
            )
        inputs.batch = batch
        return inputs


class TrainerBatches:
    """Batches of a feed as the dataset of a DataLoader without workers, which asks for them in order.

    Args:
        feed: Feed.
        first: Step of batch 0. Less than 0 if batch 0 is never asked for.
        count: Number of batches.
        fields: Fields of the model.
        args: Training arguments.
    """

    def __init__(self, feed: Feed, first: int, count: int, fields: ForwardFields, args: Any) -> None:
        self._feed = feed
        self._first = first
        self._count = count
        self._fields = fields
        self._options = {
            "workers": args.dataloader_num_workers,
            "prefetch": args.dataloader_prefetch_factor or 2,
            "pin_memory": args.dataloader_pin_memory and torch.accelerator.is_available(),
        }
        self._loader: Loader | None = None

    @property
    def samples(self) -> int:
        """Number of samples over all ranks, padding included."""
        timeline = self._feed.timeline(self._feed.world)
        first, after = timeline.span(max(0, self._first), max(0, self._first + self._count))
        return after - first

    def dataloader(self) -> "DataLoader[Any]":
        # A generator of its own: a DataLoader draws a seed, which would change the dropout of a resumed run.
        numbers = BatchSampler(range(self._count), batch_size=1, drop_last=False)
        return DataLoader(self, batch_sampler=numbers, collate_fn=only_batch, generator=torch.Generator())  # type: ignore[arg-type]

    def __getitem__(self, number: int) -> ModelInputs | UnitInputs:
        step = self._first + number
        if self._loader is None or self._loader.step != step:
            self.close()
            self._loader = self._feed.loader(step, **self._options)
        units = UnitInputs(map(self._fields.of, self._loader.next_step()))
        if number + 1 == self._count:
            self.close()
        return units[0] if self._feed.config.batch is None else units

    def state(self, step: int) -> dict[str, Any]:
        """Return the state of the feed before a step, or at the end, and flush the ledger."""
        if self._loader is not None:
            self._loader.state_dict()
        return self._feed.state(min(step, self._first + self._count))

    def close(self) -> None:
        if self._loader is not None:
            self._loader.close()
        self._loader = None


def only_batch(batches: list[ModelInputs | UnitInputs]) -> ModelInputs | UnitInputs:
    """Collate one batch: a feed makes whole ones."""
    [batch] = batches
    return batch
