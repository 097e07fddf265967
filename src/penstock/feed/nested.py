"""The state of a feed within the state of torchdata's ``StatefulDataLoader``. Knows the keys of that state only."""

from collections.abc import Mapping
from typing import Any

from penstock.feed.identity import Identity
from penstock.feed.state import read_timeline


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
