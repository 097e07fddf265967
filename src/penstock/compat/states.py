"""States of a stream: the trainer's count of batches <-> where the next ``for`` begins. Pure."""

from collections.abc import Mapping
from typing import Any

from penstock.compat.starts import Start
from penstock.feed.identity import Identity, describe, differences
from penstock.feed.state import StateError, read_sizes, whole_number
from penstock.plan.timeline import Timeline


def timeline_of(start: Start, batch: int, epoch_samples: int) -> Timeline:
    """Return how samples are cut into batches.

    Args:
        start: Start of a ``for``.
        batch: Samples per batch over all ranks, unless the start has segments.
        epoch_samples: Samples per epoch over all ranks.
    """
    if start.segments is None:
        return Timeline.constant(batch, epoch_samples)
    return read_sizes(start.segments, epoch_samples)


def write_state(
    batches: int, epoch: int | None, batch_size: int, world: int, timeline: Timeline, identity: Identity
) -> dict[str, Any]:
    """Return a state, the same for every rank.

    Args:
        batches: Batches used, of all epochs or of one.
        epoch: That epoch; None for all.
        batch_size: Samples per rank and batch.
        world: Number of ranks.
        timeline: Batch sizes of the run so far.
        identity: Identity of the order.
    """
    batches = whole_number(batches, "batches_consumed")
    before = 0 if epoch is None else timeline.step(whole_number(epoch, "epoch") * (timeline.epoch or 0))
    past = timeline.until(before + batches)
    changed = past != Timeline.constant(batch_size * world, timeline.epoch)
    return {
        "batches_consumed": batches,
        "batch_size": batch_size,
        "world_size": world,
        **({} if epoch is None else {"epoch": int(epoch)}),
        **({"segments": [list(each) for each in past.segments]} if changed else {}),
        "run": describe(identity, 1, timeline.epoch),
    }


def read_state(
    state: Mapping[str, Any], batch_size: int | None, world: int, epoch_samples: int, identity: Identity
) -> Start:
    """Return where the next ``for`` begins.

    Args:
        state: Dict with ``batches_consumed`` and ``batch_size``, or what ``write_state`` returned.
        batch_size: Samples per rank and batch from now on; None if unknown.
        world: Number of ranks now.
        epoch_samples: Samples per epoch over all ranks.
        identity: Identity of the order.

    Raises:
        StateError: If it is not a state, or one of another run.
    """
    try:
        batches = _count(state, "batches_consumed")
        size_before = _count(state, "batch_size")
        world_before = _count(state, "world_size", world)
        epoch = _count(state, "epoch", 0)
        segments = state.get("segments", [[0, 0, size_before * world_before]])
        before = read_sizes(segments, epoch_samples)
        used = batches + before.step(epoch * epoch_samples)
        if before.until(used) != before:
            raise ValueError(f"its segment {segments[-1]} begins after the {used} batches that were used")
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
    after = before.changed(used, batch_size * world)
    epoch = after.batch(used)[0] // epoch_samples
    in_epoch = used - after.step(epoch * epoch_samples)
    return Start(epoch, in_epoch, size_before, [list(each) for each in after.segments])


def _count(state: Mapping[str, Any], name: str, default: int | None = None) -> int:
    return whole_number(state[name] if default is None else state.get(name, default), name)
