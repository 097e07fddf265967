"""``penstock forget``: the steps that used some items, the newest checkpoint without them, and a config that excludes
them."""

import json
import pickle
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

import penstock
from penstock.cli.console import Terminal, counted, escaped
from penstock.cli.offline import read_saved
from penstock.cli.options import ConfigFile
from penstock.cli.progress import Progress
from penstock.config.reading import read_yaml
from penstock.feed import Feed
from penstock.feed.excluding import Named, find_named
from penstock.feed.state import StateError
from penstock.observe.forgetting import read_reported, trace
from penstock.observe.runlog import RunLog
from penstock.runtime.atomicwrite import write_atomically

_MAX_LISTED_NAMES = 200  # more of them are written to a file of their own
_CHECKPOINTS = (".pt", ".pth", ".ckpt")
_ROWS_AT_ONCE = 65_536


def forget(
    config: ConfigFile,
    items: Annotated[
        list[str],
        typer.Argument(
            metavar="ITEM…",
            help="Ids of items, group:id, or names of groups. ID* is a prefix of ids, @FILE a list.",
        ),
    ],
    ledger: Annotated[list[Path], typer.Option(metavar="LOG", help="Usage ledger. Repeat it for several nodes.")],
    checkpoints: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Saved states or checkpoints (.json, .pt, .ckpt), or a folder with them."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Config to write; CONFIG.forget.yaml by default.")
    ] = None,
) -> None:
    """Find where a run used some items, and write a config that excludes them.

    Lists every step that used the items, also as substitutes of bad samples, and the newest checkpoint from before the
    first of these steps. Training from that checkpoint with the new config gives the model that never saw the items.
    Reads no data, unless the run has to be indexed first.
    """
    target = out or config.with_suffix(".forget.yaml")
    if target.exists():
        raise ValueError(f"{target}: exists; remove it, or name another file with -o")
    if target.parent.resolve() != config.parent.resolve():
        raise ValueError(f"{target}: write it into the folder of {config}: paths in it are relative to that folder")
    feed = penstock.open(config, rank=0, world=1, usage=None)
    names, found = _find(feed, items)
    with Progress("reading", in_bytes=True) as progress:
        reported = read_reported(RunLog(ledger, feed, progress.update))
    with Progress("looking up") as progress:
        used = trace(feed, found, reported, progress.update)
    console = Terminal()
    total = len(found.items) + len(found.members)
    in_steps = f"{counted(used.uses, 'use')} in {counted(len(used.steps), 'step')} of {used.end:,}"
    console.print(f"{counted(total, 'item')}: {in_steps}", soft_wrap=True)
    if used.steps:
        console.print(f"steps: {_ranges(used.steps)}", soft_wrap=True, highlight=False)
    for gap in reported.gaps:
        console.print(f"missing in the ledger, so only planned uses are known: {gap}", soft_wrap=True, highlight=False)
    console.print(f"clean: checkpoints of step {used.clean:,} (sample {used.sample:,}) and before", soft_wrap=True)
    at = used.sample
    if checkpoints:
        at, what = _newest(feed, checkpoints, used.clean)
        console.print(what, soft_wrap=True)
    _write(config, target, at, names)
    what = "it" if total == 1 else "them"
    console.print(f"wrote {escaped(str(target))}, which excludes {what} from sample {at:,} on", soft_wrap=True)


def _ranges(steps: list[int]) -> str:
    """Return steps as text: consecutive ones as A:B, which is A to B-1."""
    starts = [step for before, step in zip([-2, *steps], steps, strict=False) if step != before + 1]
    ends = [step + 1 for step, after in zip_longest(steps, steps[1:], fillvalue=-2) if after != step + 1]
    return ", ".join(f"{a}:{b}" if b > a + 1 else str(a) for a, b in zip(starts, ends, strict=True))


def _find(feed: Feed, items: Iterable[str]) -> tuple[list[str], Named]:
    """Return the names of items as a config has them, and what they stand for."""
    names: list[str] = []
    for item in items:
        if item.startswith("@"):
            names += [line.strip() for line in Path(item[1:]).read_text().splitlines() if line.strip()]
        else:
            names.append(item)
    found, unknown = find_named([name for name in names if not name.endswith("*")], feed.catalog)
    prefixes = [name[:-1] for name in names if name.endswith("*")]
    names = [name for name in names if not name.endswith("*")]
    if prefixes:
        matching = list(_with_prefix(feed, tuple(prefixes)))
        unknown += [f"{prefix}*" for prefix in prefixes if not any(id.startswith(prefix) for id, _ in matching)]
        more, _ = find_named([name for _, name in matching], feed.catalog)
        found.items.update(more.items)
        found.members.update(more.members)
        names += [name for _, name in matching]
    if unknown:
        raise ValueError(f"no source has an item or a group with this name: {', '.join(unknown[:12])}")
    return list(dict.fromkeys(names)), found


def _with_prefix(feed: Feed, prefixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the ids that begin with one of some prefixes, each with its ``group:id``."""
    catalog = feed.catalog
    with Progress("searching ids") as progress:
        for source in progress.track(range(len(catalog.sources)), len(catalog.sources)):
            yield from ((id, name) for id, name in catalog.all_ids(source, _ROWS_AT_ONCE) if id.startswith(prefixes))


def _newest(feed: Feed, paths: Sequence[Path], clean: int) -> tuple[int, str]:
    """Return the sample of the newest checkpoint up to a step, and lines about it and files that could not be read.

    Raises:
        ValueError: If there is no state of this run.
    """
    found: list[tuple[int, Path, int]] = []
    unread: list[str] = []
    for path in _files(paths):
        try:
            states = list(_states(path))
        except ValueError as error:
            if path in paths:
                raise
            if path.suffix in _CHECKPOINTS:
                unread.append(str(error))
            continue  # another file of a folder
        for state in states:
            try:
                step = feed.resume(state)
            except StateError:
                continue
            found.append((step, path, feed.state(step)["samples"]))
    if not found:
        raise ValueError("; ".join([f"--checkpoints: no state of this run in {', '.join(map(str, paths))}", *unread]))
    lines = [f"left out: {escaped(each)}" for each in unread]
    if min(found)[0] > clean:
        lines.append(f"none of {counted(len(found), 'checkpoint')} is clean: begin at step 0")
        return 0, "\n".join(lines)
    step, path, sample = max(each for each in found if each[0] <= clean)
    lines.append(f"newest clean checkpoint: {escaped(str(path))} (step {step:,})")
    return sample, "\n".join(lines)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (each for each in sorted(path.rglob("*")) if each.suffix in (".json", *_CHECKPOINTS))
        else:
            yield path


def _states(path: Path) -> Iterator[Any]:
    """Yield everything in a file that looks like a state of a feed."""
    if path.suffix in _CHECKPOINTS:
        try:
            import torch
        except ImportError:
            raise ValueError(f"{path}: needs torch, which is not installed; save its state as JSON") from None
        try:
            content = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError):
            raise ValueError(f"{path}: can't be loaded with weights_only=True; save its state as JSON") from None
    else:
        content = read_saved(path)
    waiting = [content]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "fingerprint" in each and "segments" in each:
                yield each
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each


def _write(config: Path, target: Path, at: int, names: list[str]) -> None:
    """Write a config that excludes some items in addition, and check that it opens."""
    content = read_yaml(config)
    listed = target.with_suffix(".txt") if len(names) > _MAX_LISTED_NAMES else None
    if listed is not None and listed.exists():
        raise ValueError(f"{listed}: exists; remove it, or name another file with -o")
    entries = [{"at": 0} | entry for entry in content.get("exclude") or []]
    entries.append({"at": at, "items": names if listed is None else listed.name})
    text = f"{_without_exclude(config.read_text()).rstrip()}\n{_block(entries)}"
    if yaml.safe_load(text) != {**content, "exclude": entries}:
        raise ValueError(f"{config}: can't be rewritten; add this to it by hand:\n{_block(entries)}")
    try:
        if listed is not None:
            write_atomically(listed, ["".join(f"{name}\n" for name in names).encode()])
        write_atomically(target, [text.encode()])
        penstock.open(target, rank=0, world=1, usage=None)
    except BaseException:
        target.unlink(missing_ok=True)
        if listed is not None:
            listed.unlink(missing_ok=True)
        raise


def _block(entries: list[dict[str, Any]]) -> str:
    lines = ["exclude:"]
    for entry in entries:
        items = entry["items"]
        lines.append(f"- at: {entry['at']}")
        if isinstance(items, str):
            lines.append(f"  items: {json.dumps(items)}")
        else:
            lines += ["  items:", *(f"  - {json.dumps(name, ensure_ascii=False)}" for name in items)]
    return "\n".join(lines) + "\n"


def _without_exclude(text: str) -> str:
    """Return the text of a config without its ``exclude``, which ends where the next key begins."""
    return re.sub(r"^exclude:.*\n(?:(?:[ \t-].*)?\n)*", "", text + "\n", flags=re.MULTILINE)
