"""The state of a run: one small dict, the same for every rank. Knows nothing of files."""

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from penstock.config import Config
from penstock.config.errors import shown
from penstock.feed.identity import Identity, differences
from penstock.feed.pooling import Pool
from penstock.plan.timeline import Timeline
from penstock.plan.windowtimeline import AnyTimeline, WindowSegment, WindowTimeline

_MAX_SAMPLES = 1 << 62  # positions are 64-bit integers


class StateError(ValueError):
    """A state of another run, or an invalid one.

    Attributes:
        differences: Descriptions of what differs from this run; empty if the state is invalid.
        advice: What to do about them.

    Examples:
        >>> import penstock
        >>> state = penstock.open("run.yaml", seed=1).state(100)
        >>> try:
        ...     penstock.open("run.yaml", seed=2).resume(state)
        ... except penstock.StateError as error:
        ...     print(error.differences)
        ('seed (1 then, 2 now)',)
    """

    def __init__(self, message: str, differences: Sequence[str] = (), advice: str = "") -> None:
        super().__init__(message)
        self.differences = tuple(differences)
        self.advice = advice


def global_batch_size(config: Config, world: int) -> int:
    return config.global_batch_size or (config.batch_size or 1) * world


def whole_number(value: object, name: str) -> int:
    """Return a value of a state as a Python integer, which JSON can represent.

    Args:
        value: Non-negative integer of any type.
        name: Name of the value, for the message.

    Raises:
        ValueError: If the value is not a non-negative integer.
    """
    try:
        number = -1 if isinstance(value, bool | np.bool_) else operator.index(value)  # type: ignore[arg-type]  # TypeError if it is none
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"{name} is {shown(value)}; expected a non-negative integer")
    return number


def read_timeline(segments: Any, epoch: int | None) -> AnyTimeline:
    """Return the timeline that a state describes: of batches of fixed sizes, or by length; see ``read_sizes``."""
    if isinstance(segments, Sequence) and segments and isinstance(segments[0], Sequence) and len(segments[0]) == 6:
        return _read_windows(segments, epoch)
    return read_sizes(segments, epoch)


def _read_windows(segments: Sequence[Any], epoch: int | None) -> WindowTimeline:
    number = partial(whole_number, name="a number in segments")
    found = []
    for each in segments:
        if not isinstance(each, Sequence) or len(each) != 6:
            form = "[step, slot, units, budget, window, steps]"
            raise ValueError(f"segments is {shown(segments)}; expected a list of {form}")
        step, slot, units, budget, window, steps = each
        budgets = budget if isinstance(budget, Sequence) else [budget]
        own = tuple(whole_number(each, "a budget in segments") for each in budgets)
        found.append(WindowSegment(number(step), number(slot), number(units), own, number(window), number(steps)))
    return WindowTimeline(tuple(found), epoch)


def read_sizes(segments: Any, epoch: int | None) -> Timeline:
    """Return the timeline that a state describes.

    Args:
        segments: Segments of the state.
        epoch: Samples per epoch, if no batch crosses the end of one.

    Raises:
        ValueError: If the segments are invalid or out of order.
    """
    try:
        read = [(step, sample, size) for step, sample, size in segments]
    except (TypeError, ValueError):
        raise ValueError(f"segments is {shown(segments)}; expected a list of [step, sample, batch size]") from None
    whole = (tuple(whole_number(number, "a number in segments") for number in each) for each in read)
    return Timeline(tuple((step, sample, size) for step, sample, size in whole), epoch)


def write_state(config: Config, identity: Identity, timeline: AnyTimeline, step: int) -> dict[str, Any]:
    """Return the state of a run after ``step`` batches."""
    step = whole_number(step, "step")
    past = timeline.until(step)
    samples = past.end_slot(step - 1)
    return {
        "step": step,
        "samples": samples,
        "segments": listed_segments(past),
        **({} if timeline.epoch is None else {"epoch": timeline.epoch}),
        "batch_size": config.batch_size if past == timeline else None,  # None: it has changed since
        "lanes": identity.lanes,
        "pool": identity.pool,
        "fingerprint": identity.fingerprint(samples),
    }


def listed_segments(timeline: AnyTimeline) -> list[list[Any]]:
    """Return the segments of a timeline as JSON represents them."""
    if isinstance(timeline, WindowTimeline):
        return [segment.listed() for segment in timeline.segments]
    return [list(segment) for segment in timeline.segments]


def kept_pool(state: Mapping[str, Any]) -> Pool | None:
    """Return the pool of a state; None if it has none, or no valid one."""
    try:
        pool = _pool(state["pool"])
    except (KeyError, TypeError, ValueError):
        return None
    numbers = pool.values() if isinstance(pool, Mapping) else [pool or 0]
    return pool if all(0 < number < _MAX_SAMPLES for number in numbers) else None


def _pool(value: object) -> Pool | None:
    if isinstance(value, Mapping):
        return {name: whole_number(value[name], f"pool.{name}") for name in ("total", "each")}
    return None if value is None else whole_number(value, "pool")


def read_state(
    state: Mapping[str, Any],
    config: Config,
    identity: Identity,
    epoch: int | None = None,
    *,
    world: int,
    strict: bool = True,
) -> tuple[int, AnyTimeline]:
    """Read a state. A new batch size applies from the next step on.

    Args:
        state: State that ``write_state`` returned, or a trainer's own count (``batches_consumed``).
        config: Configuration of this run.
        identity: Identity of this run.
        epoch: Samples per epoch, if no batch crosses the end of one.
        world: Number of ranks.
        strict: Whether to refuse a state of another seed, data, mixture, pool or number of lanes. Otherwise, if the
            length of an epoch differs, the run continues at the same step but not at the same sample.

    Returns:
        The next step, and the timeline up to it. A new budget of batches by length is left to the caller.

    Raises:
        StateError: If the state is invalid or, with ``strict``, belongs to another run.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"not a state of a feed: expected a dict, not {shown(state)}")
    try:
        step, timeline = _position(state, world, epoch)
        _require_same_kind(config, timeline)
        if strict and "batches_consumed" not in state:
            _compare(state, identity, epoch)
        elif timeline.epoch != epoch and isinstance(timeline, Timeline):
            timeline = Timeline.constant(timeline.full_size(step), epoch)
    except StateError:
        raise
    except KeyError as missing:
        raise StateError(f"not a state of a feed: it has no {missing}") from None
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise StateError(f"not a state of a feed: {error}") from None
    if isinstance(timeline, WindowTimeline):
        return step, timeline
    kept = config.global_batch_size is None and state.get("batch_size") == config.batch_size
    if "batches_consumed" not in state and kept:
        return step, timeline  # the global batch size of the first start, whatever the world is now
    return step, timeline.changed(step, global_batch_size(config, world))


def _require_same_kind(config: Config, timeline: AnyTimeline) -> None:
    """Raise ``StateError`` if only one of state and config has batches by length."""
    by_length = isinstance(timeline, WindowTimeline)
    if by_length != (config.batch is not None):
        theirs, ours = ("batch", "batch_size") if by_length else ("batch_size", "batch")
        raise StateError(
            f"this state is of a run with `{theirs}`, and the config has `{ours}`; a run keeps the kind of its batches"
        )


def _position(state: Mapping[str, Any], world: int, epoch: int | None) -> tuple[int, AnyTimeline]:
    timeline: AnyTimeline
    if "batches_consumed" in state:  # a trainer's own count
        ranks = whole_number(state.get("world", world), "world")
        timeline = Timeline.constant(whole_number(state["batch_size"], "batch_size") * ranks, epoch)
        step = whole_number(state["batches_consumed"], "batches_consumed")
    else:
        kept = state.get("epoch")
        timeline = read_timeline(state["segments"], None if kept is None else whole_number(kept, "epoch"))
        step = whole_number(state["step"], "step")
        _require_consistent(state, step, timeline)
    begin = timeline.end_slot(step - 1)
    if timeline.end_slot(step) > _MAX_SAMPLES:
        raise ValueError(f"step {step} begins at sample {begin}, but a run has at most {_MAX_SAMPLES} samples")
    return step, timeline


def _require_consistent(state: Mapping[str, Any], step: int, timeline: AnyTimeline) -> None:
    """Raise ``StateError`` if the values of a state contradict each other."""
    *_, last = timeline.segments
    samples = whole_number(state["samples"], "samples")
    size = state.get("batch_size")
    contradiction = ""
    begin = timeline.end_slot(step - 1)
    if last[0] > step:
        contradiction = f"its segment {list(last)} begins after its step, {step}"
    elif samples != begin:
        contradiction = f"by its segments, step {step} begins at sample {begin}, not at {samples}"
    elif (
        isinstance(timeline, Timeline)
        and size is not None
        and (whole_number(size, "batch_size") == 0 or last[2] % size)
    ):
        contradiction = f"batch_size is {size}, and its last segment has global batches of {last[2]}"
    if contradiction:
        raise StateError(f"this state contradicts itself: {contradiction}; load one as it was saved")


def _compare(state: Mapping[str, Any], identity: Identity, epoch: int | None) -> None:
    theirs = {
        **_fingerprint(state["fingerprint"]),
        "epoch": state.get("epoch"),
        "lanes": whole_number(state["lanes"], "lanes"),
        "pool": _pool(state["pool"]),
    }
    differing = differences(theirs, identity, whole_number(state["samples"], "samples"), epoch)
    if differing:
        advice = _advice(theirs, identity, differing)
        found = ", ".join(differing)
        raise StateError(f"this state belongs to another run: it differs in {found}; {advice}", differing, advice)


def _advice(theirs: Mapping[str, Any], identity: Identity, differing: Sequence[str]) -> str:
    """Return what to do about a state of another run."""
    if any(not each.startswith("exclude (") for each in differing):
        return (
            "restore these values, or pass strict=False to feed.resume or loader.load_state_dict "
            "to continue from the same step in another order"
        )
    if theirs.get("exclude") is None:  # strict=False would train on with a model that may have seen the items
        first = min(at for at, _ in identity.exclude)
        return f"its model may have seen excluded items: load a state of sample {first:,} or before"
    return "keep the entries of `exclude` that it was saved with, and give new ones a later `at`"


def _fingerprint(found: object) -> dict[str, Any]:
    """Check the fingerprint of a state.

    Raises:
        ValueError: If it is damaged.
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"fingerprint is {shown(found)}; expected a dict")
    if missing := [name for name in ("seed", "items", "run", "mixture") if name not in found]:
        raise ValueError(f"fingerprint has no {', '.join(map(repr, missing))}")
    if isinstance(found["seed"], bool) or not isinstance(found["seed"], int | np.integer):
        raise ValueError(f"seed in fingerprint is {shown(found['seed'])}; expected an integer")
    for name in ("items", "sources", "run", "mixture"):
        if not isinstance(found.get(name, ""), str):
            raise ValueError(f"{name} in fingerprint is {shown(found[name])}; expected a string")
    return {**found}


def nested_state(state: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
    """Return the state that a feed's sampler has saved, and the number of batches used since.

    Args:
        state: State of a ``StatefulDataLoader`` with or without workers. Any other state is returned as it is.
    """
    if not isinstance(state, Mapping):
        return state, 0
    snapshot = state.get("_snapshot")
    main = snapshot.get("_main_snapshot") if isinstance(snapshot, Mapping) else state
    found = main.get("_sampler_iter_state") if isinstance(main, Mapping) else None
    # With snapshot_every_n_steps=1, the default, a snapshot is never older than the last batch.
    return (state, 0) if found is None else (found, state.get("_steps_since_snapshot", 0))


def advanced(state: Mapping[str, Any], identity: Identity, steps: int) -> dict[str, Any]:
    """Return a state of this run as it is some steps later."""
    step = state["step"] + steps
    samples = read_timeline(state["segments"], state.get("epoch")).end_slot(step - 1)
    return {**state, "step": step, "samples": samples, "fingerprint": identity.fingerprint(samples)}
