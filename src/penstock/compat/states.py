"""States of a stream: the trainer's count of batches <-> where the next ``for`` begins. Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.compat.starts import Start
from penstock.feed.state import Identity, StateError, describe, differences
from penstock.plan.timeline import Timeline

Segments = list[list[int]]


def timeline_of(start: Start, batch: int, epoch_samples: int) -> Timeline:
    """Return how samples are cut into batches.

    Args:
        start: where a ``for`` begins.
        batch: samples of a batch of all ranks, if the start does not say otherwise.
        epoch_samples: samples of an epoch, over all ranks.
    """
    if start.segments is None:
        return Timeline.constant(batch, epoch_samples)
    return _timeline(start.segments, epoch_samples)


def _timeline(segments: Any, epoch_samples: int) -> Timeline:
    return Timeline(tuple((int(step), int(sample), int(size)) for step, sample, size in segments), epoch_samples)


def write_state(
    batches: int, epoch: int | None, batch_size: int, world: int, timeline: Timeline, identity: Identity
) -> dict[str, Any]:
    """Return a state, the same for every rank.

    Args:
        batches: that were used, of all epochs or of one.
        epoch: that epoch; None for all.
        batch_size: per rank.
        world: the number of ranks.
        timeline: how samples were cut into batches so far.
        identity: what the order follows from.
    """
    changed = len(timeline.segments) > 1
    return {
        "batches_consumed": int(batches),
        "batch_size": batch_size,
        "world_size": world,
        **({} if epoch is None else {"epoch": int(epoch)}),
        **({"segments": [list(each) for each in timeline.segments]} if changed else {}),
        "run": describe(identity, 1, timeline.epoch),
    }


def read_state(
    state: Mapping[str, Any], batch_size: int | None, world: int, epoch_samples: int, identity: Identity
) -> Start:
    """Return where the next ``for`` begins.

    Args:
        state: ``batches_consumed`` and ``batch_size``, or what ``write_state`` returned.
        batch_size: per rank, from now on; None if the stream does not know it.
        world: the number of ranks now.
        epoch_samples: samples of an epoch, over all ranks.
        identity: what the order follows from.

    Raises:
        StateError: If it is not a state, or one of another run.
    """
    try:
        batches = _count(state, "batches_consumed")
        size_before = _count(state, "batch_size")
        world_before = _count(state, "world_size", world)
        epoch = _count(state, "epoch", 0)
        segments = state.get("segments", [[0, 0, size_before * world_before]])
        before = _timeline(segments, epoch_samples)
        theirs = dict(state.get("run", {}))
    except KeyError as missing:
        raise StateError(f"not a state of a stream: it has no {missing}") from None
    except (TypeError, ValueError) as error:
        raise StateError(f"not a state of a stream: {error}") from None
    differing = differences(theirs, identity, 1, epoch_samples) if theirs else []
    if differing:
        raise StateError(f"this state belongs to another run: it differs in {', '.join(differing)}")
    if batch_size is None:
        if world_before != world or "segments" in state:
            raise StateError("this state is of another number of ranks or batch size: give batch_size to the dataset")
        return Start(epoch, batches, size_before)
    batches += before.step(epoch * epoch_samples)
    after = before.changed(batches, batch_size * world)
    epoch = after.batch(batches)[0] // epoch_samples
    in_epoch = batches - after.step(epoch * epoch_samples)
    return Start(epoch, in_epoch, size_before, [list(each) for each in after.segments])


def _count(state: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = state[name] if default is None else state.get(name, default)
    count = int(value)
    if isinstance(value, bool | np.bool_) or count != value or count < 0:
        raise ValueError(f"{name} is {value!r}; it takes a whole number from 0 on")
    return count
