"""``penstock diff``: the first step at which two runs differ, and why. Reads no data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from penstock.cli.console import counted, escaped
from penstock.cli.offline import open_offline
from penstock.cli.options import AsJson, World, parse_step_count
from penstock.cli.progress import Progress
from penstock.feed import Feed, StateError
from penstock.observe.diff import ENDLESS, Compared, Difference, Labels, LedgerRun, NamedPlan, compare, plans
from penstock.observe.lines import read_lines
from penstock.observe.reasons import reasons

_DEFAULT_STEPS = 10_000  # of two endless runs
_SHOWN_ITEMS = 5
_IN_STATES = ("seed", "run", "items", "mixture", "exclude")  # of a fingerprint


class _Given(NamedTuple):
    """A file as it was given: a config, the content of a state, or a ledger."""

    path: Path
    feed: Feed | None = None
    state: Mapping[str, Any] | None = None


def diff(
    one: Annotated[Path, typer.Argument(metavar="A", help="Config, saved state (JSON) or usage ledger.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Config, state or ledger to compare it with.")],
    steps: Annotated[
        str | None,
        typer.Option(help="Number of steps from the start, or A:B for steps A to B-1; by default all, at most 10,000."),
    ] = None,
    world: World = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: the first step that differs and why, and the samples that only one of them uses.

    Exits with 1 if they differ. Reads no data, unless a run has to be indexed first.
    """
    first = _open(one, world)
    second = _open(other, world)
    why = _why(first, second)
    states = first.state is not None or second.state is not None
    found = None if states else _compare(first, second, steps)
    if as_json:
        typer.echo(json.dumps(_as_dict(why, found)))
    else:
        _print(why, found)
    if why or (found is not None and found.first is not None):
        raise typer.Exit(1)


def _open(path: Path, world: int | None) -> _Given:
    """Open a file by its content: YAML is a config, one JSON object a state, lines of a ledger a ledger."""
    if path.suffix in (".yaml", ".yml"):
        return _Given(path, feed=open_offline(path, 0, world))
    if next((line for line in read_lines(path) if line is not None), None) is not None:
        return _Given(path)
    try:
        state = json.loads(path.read_text())
    except ValueError:
        state = None
    if not isinstance(state, dict) or not isinstance(state.get("fingerprint"), dict):
        raise ValueError(f"{path}: neither a config (.yaml), a saved state (JSON) nor a usage ledger")
    return _Given(path, state=state)


def _why(one: _Given, other: _Given) -> list[str]:
    if one.feed is not None and other.feed is not None:
        return reasons(one.feed, other.feed)
    if one.state is None and other.state is None:
        return []
    if one.state is not None and other.state is not None:
        return _between_states(one.state, other.state)
    saved, run = (one, other) if one.state is not None else (other, one)
    if run.feed is None:
        raise ValueError(f"{saved.path} is a state and {run.path} a ledger; compare each of them with a config")
    assert saved.state is not None
    try:
        run.feed.resume(saved.state)
    except StateError as error:
        if not error.differences:
            raise ValueError(f"{saved.path}: {error}") from None
        return list(error.differences)
    return []


def _between_states(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    pairs = [(name, one["fingerprint"].get(name), other["fingerprint"].get(name)) for name in _IN_STATES]
    pairs += [(name, one.get(name), other.get(name)) for name in ("lanes", "pool", "epoch", "segments")]
    return [f"{name}: {first} in A, {second} in B" for name, first, second in pairs if first != second]


def _compare(one: _Given, other: _Given, asked: str | None) -> Difference:
    runs = _runs(one, other)
    known = range(max(run.steps.start for run in runs), min(run.steps.stop for run in runs))
    if asked is not None:
        steps = parse_step_count(asked)
        steps = range(max(steps.start, known.start), min(steps.stop, known.stop))
    else:
        steps = range(known.start, min(known.stop, known.start + _DEFAULT_STEPS)) if known.stop == ENDLESS else known
    if not steps:
        raise ValueError(f"{one.path} and {other.path} have none of these steps in common")
    with Progress("comparing") as progress:
        for found in compare(*runs, steps):
            progress.update(len(found.steps), len(steps))
    return found


def _runs(one: _Given, other: _Given) -> tuple[Compared, Compared]:
    if one.feed is not None and other.feed is not None:
        return plans(one.feed, other.feed)
    labels = Labels()
    ledgers = [LedgerRun(each.path, labels) if each.feed is None else None for each in (one, other)]
    timeline = next(ledger.timeline for ledger in ledgers if ledger is not None)
    first, second = (
        ledger or NamedPlan(_feed(each), labels, timeline) for each, ledger in zip((one, other), ledgers, strict=True)
    )
    return first, second


def _feed(given: _Given) -> Feed:
    assert given.feed is not None
    return given.feed


def _print(why: list[str], found: Difference | None) -> None:
    if found is None:
        typer.echo("A and B differ in:" if why else "A and B belong to the same run.")
    elif found.first is None:
        same = "A and B are the same run" if not why else "A and B have the same batches in these steps, but differ"
        typer.echo(f"{same}: {counted(len(found.steps), 'step')} compared, {_range(found.steps)}.")
    else:
        step, slot, items = found.first
        here, there = (escaped(item) or "nothing" for item in items)
        typer.echo(f"A and B differ from step {step:,} on: sample {slot} of its batch is {here} in A and {there} in B.")
    for reason in why:
        typer.echo(f"- {escaped(reason)}")
    if found is None or found.first is None:
        return
    share = found.equal / len(found.steps)
    other_order = f", {found.reordered:,} have the same samples in another order" if found.reordered else ""
    steps = f"{counted(len(found.steps), 'step')} ({_range(found.steps)})"
    typer.echo(f"Of {steps}, {found.equal:,} are equal ({share:.1%}){other_order}.")
    typer.echo(f"Both use {counted(found.common, 'item')}.")
    for run, names in zip("AB", found.only, strict=True):
        if names:
            shown = ", ".join(map(escaped, names[:_SHOWN_ITEMS]))
            more = f" and {len(names) - _SHOWN_ITEMS:,} more" if names[_SHOWN_ITEMS:] else ""
            typer.echo(f"Only {run} uses {counted(len(names), 'item')}: {shown}{more}.")


def _range(steps: range) -> str:
    return f"{steps.start}:{steps.stop}"


def _as_dict(why: list[str], found: Difference | None) -> dict[str, Any]:
    if found is None:
        return {"why": why}
    return {
        "steps": [found.steps.start, found.steps.stop],
        "equal": found.equal,
        "reordered": found.reordered,
        "first": None if found.first is None else found.first._asdict(),
        "why": why,
        "common": found.common,
        "only_a": found.only[0],
        "only_b": found.only[1],
    }
