"""Checks that ledgers agree with the plan in all steps of a receipt. Reads no data."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from penstock.feed import Feed
from penstock.observe.coverage import joined, missing
from penstock.observe.lineage import Lineage, lineage
from penstock.observe.lines import LedgerLine, line_timeline, read_lines
from penstock.observe.proof import of_this_run, prove
from penstock.observe.receipt import CheckedLedger, LedgerFile
from penstock.plan.windowtimeline import AnyTimeline

Tracked = Callable[[Sequence[LedgerLine]], Iterable[LedgerLine]]
"""Yields lines, and shows how many are done."""

_SHOWN_DIFFERENCES = 3


def check_ledgers(
    feed: Feed, logs: Sequence[Path], steps: range, track: Tracked = lambda lines: lines
) -> tuple[CheckedLedger, AnyTimeline]:
    """Check the lines of some steps against the plan.

    Args:
        feed: Feed of the run.
        logs: Ledgers of the run, one per node.
        steps: Steps that the ledgers must cover on all ranks.
        track: Shows the progress.

    Returns:
        What was checked, and the samples of each step of the run.

    Raises:
        ValueError: If the ledgers are of another run, do not cover the steps, or differ from the plan.
    """
    names = ", ".join(map(str, logs))
    files = [_file(log) for log in logs]
    lines = [line for line in read_lines(*logs) if line is not None]
    if not lines:
        raise ValueError(f"{names}: not a usage ledger, or no step was recorded yet")
    found = _within(lineage(lines), steps)
    if not found.kept:
        raise ValueError(f"{names}: no line covers steps {steps.start}:{steps.stop}")
    if not any(of_this_run(feed, line) for line, _ in found.kept):
        raise ValueError(f"{names}: written by another run (seed, data, mixture or exclude differ from the config)")
    proof = prove(feed, track([line for line, _ in found.kept]), found)
    if proof.wrong:
        shown = "; ".join(proof.wrong[:_SHOWN_DIFFERENCES])
        more = f"; and {len(proof.wrong) - _SHOWN_DIFFERENCES} more" if proof.wrong[_SHOWN_DIFFERENCES:] else ""
        known = "is not complete" if proof.wrong == found.gaps else "does not agree with the plan"
        raise ValueError(f"{names}: {known}: {shown}{more}")
    newest, _ = max(found.kept, key=itemgetter(1))
    bad = Counter(
        each["outcome"] for line, end in found.kept for each in line["bad"] if steps.start <= each["step"] < end
    )
    return CheckedLedger(files=files, covers=proof.proven, bad=dict(bad)), line_timeline(newest)


def _file(log: Path) -> LedgerFile:
    with open(log, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return LedgerFile(name=log.name, size=file.tell(), sha256=digest.hexdigest())


def _within(found: Lineage, steps: range) -> Lineage:
    """Return the lines of some steps. Gaps are those in these steps."""
    kept = [
        (line, min(end, steps.stop)) for line, end in found.kept if line["steps"][0] < steps.stop and end > steps.start
    ]
    own = replace(found, kept=kept, gaps=[], given_up=None)
    spans = {rank: [(max(first, steps.start), end) for first, end in each] for rank, each in own.spans().items()}
    covered = joined(span for each in spans.values() for span in each)
    gaps = missing(spans)
    if covered and covered[0][0] > steps.start:
        gaps.append(f"no line covers steps {steps.start}:{covered[0][0]}")
    if covered and covered[-1][1] < steps.stop:
        gaps.append(f"no line covers steps {covered[-1][1]}:{steps.stop}")
    return replace(own, gaps=gaps)
