"""The state of a ``TrueStreamingDataset`` as JSON: the keys of the old class, all of them derived from one position.

One key of our own, ``penstock``, says which run the position belongs to. A state without it is one of the old class.
"""

import json
import operator
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.feed.identity import Identity
from penstock.feed.state import StateError, whole_number
from penstock.plan.rounds import Rounds

OWN_KEY = "penstock"
MODALITIES = ("text", "image", "video", "audio")

_MEANINGS = {
    "seed": "the seed",
    "items": "the datasets, their files or their format functions",
    "run": "sample_repeat or shuffle",
    "mixture": "max_per_epoch, max_per_dataset, modality_max_values or the datasets",
}


class StreamRun(NamedTuple):
    """The run that a state belongs to.

    Attributes:
        rounds: Rounds of the run.
        sources: Names of the sources, in order.
        modalities: Modalities of the sources.
        identity: Identity of the order.
    """

    rounds: Rounds
    sources: Sequence[str]
    modalities: Sequence[str]
    identity: Identity


class Resumed(NamedTuple):
    """Where a state goes on.

    Attributes:
        position: Samples received, over all epochs.
        first: First item of each source.
        is_old: Whether it is a state of the old class.
    """

    position: int
    first: Sequence[int]
    is_old: bool


def make_state(run: StreamRun, position: int, first: Sequence[int]) -> dict[str, Any]:
    """Return the state after some samples.

    Args:
        run: Run of the state.
        position: Samples received, over all epochs and with repeats.
        first: First item of each source.
    """
    rounds = run.rounds
    assert rounds.epoch is not None
    epoch, yields = divmod(position, rounds.epoch)
    _, drawn = rounds.drawn(position, None)
    taken = (-(-drawn // rounds.repeat)).tolist()  # a record counts from its first yield on
    counts = Counter(dict.fromkeys(MODALITIES, 0))
    for modality, count, per_epoch in zip(run.modalities, taken, rounds.counts, strict=True):
        counts[modality] += count - epoch * per_epoch
    return {
        "epoch": epoch,
        "unique_samples": -(-yields // rounds.repeat),
        "total_yields": yields,
        "dataset_positions": {
            name: begun + count for name, begun, count in zip(run.sources, first, taken, strict=True)
        },
        "modality_counts": dict(counts),
        OWN_KEY: {"fingerprint": run.identity.fingerprint(1), "first": list(first)},
    }


def read_state(state: object, run: StreamRun) -> Resumed:
    """Return where a state goes on.

    Raises:
        StateError: If it is not a state, or belongs to another run.
    """
    if not isinstance(state, Mapping) or not isinstance(state.get("dataset_positions"), Mapping):
        raise StateError("not a state of a TrueStreamingDataset: it has no dataset_positions")
    try:
        return _own(state, run) if OWN_KEY in state else _old(state, run)
    except StateError:
        raise
    except KeyError as missing:
        raise StateError(f"not a state of a TrueStreamingDataset: it has no {missing}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise StateError(f"not a state of a TrueStreamingDataset: {error}") from None


def _own(state: Mapping[str, Any], run: StreamRun) -> Resumed:
    theirs = state[OWN_KEY]["fingerprint"]
    mine = run.identity.fingerprint(1)
    differing = [_difference(name, theirs, run) for name in mine if theirs.get(name) != mine[name]]
    if differing:
        raise StateError(
            f"this state belongs to another run: it differs in {', '.join(filter(None, differing))}; restore what it "
            f"was, or remove the key {OWN_KEY!r} from the file to begin an epoch at its dataset_positions"
        )
    assert run.rounds.epoch is not None
    yields = whole_number(state["total_yields"], "total_yields")
    if yields >= run.rounds.epoch:
        raise StateError(f"total_yields is {yields}, and an epoch has {run.rounds.epoch}; the next begins with 0")
    position = whole_number(state["epoch"], "epoch") * run.rounds.epoch + yields
    first = [operator.index(number) for number in state[OWN_KEY]["first"]]
    made = make_state(run, position, first)
    differing = [name for name in made if name != OWN_KEY and state[name] != made[name]]
    if differing:
        raise StateError(
            f"this state contradicts itself: {differing[0]} does not follow from epoch and total_yields; load one as "
            f"it was saved, or remove the key {OWN_KEY!r} from the file to begin an epoch at its dataset_positions"
        )
    return Resumed(position, first, False)


def _difference(name: str, theirs: Mapping[str, Any], run: StreamRun) -> str:
    """Return one thing that differs, in words. Digits of sources only name those that differ."""
    if name == "sources":
        return ""
    changed = run.identity.differing_sources(str(theirs.get("sources", "")), 1) if name == "items" else []
    return f"the files or the format functions of {', '.join(changed[:5])}" if changed else _MEANINGS[name]


def _old(state: Mapping[str, Any], run: StreamRun) -> Resumed:
    """Let the epoch of the old state begin at its positions. Its class began to count anew with every ``for``."""
    assert run.rounds.epoch is not None
    epoch = whole_number(state.get("epoch", 0), "epoch")
    position = epoch * run.rounds.epoch
    _, drawn = run.rounds.drawn(position, None)
    before = (drawn // run.rounds.repeat).tolist()
    positions = state["dataset_positions"]
    found = [positions.get(name, positions.get(name.rpartition(":")[0], 0)) for name in run.sources]
    wanted = [whole_number(each, f"the position of {name}") for name, each in zip(run.sources, found, strict=True)]
    return Resumed(position, [begin - used for begin, used in zip(wanted, before, strict=True)], True)


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state. A crash leaves the old file or the new one."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    new.write_text(json.dumps(state))
    new.replace(target)


def load(path: str | os.PathLike[str]) -> object:
    """Read the JSON of a state.

    Raises:
        StateError: If it is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise StateError(f"{path}: not JSON: {error}") from None
