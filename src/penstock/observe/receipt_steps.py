"""Hashes of the planned steps of a run, for receipts. Reads indexes, but no data."""

import base64
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penstock.feed import Feed, StateError
from penstock.feed.state import write_state
from penstock.observe.coverage import steps_text
from penstock.observe.receipt import (
    AGREED,
    CONTENTS,
    PLANNED,
    CheckedLedger,
    Content,
    Receipt,
    ReceiptSource,
    leaf,
    subtree_steps,
    tree_root,
)
from penstock.plan.order import Planned
from penstock.plan.windowtimeline import AnyTimeline

_SAMPLES_AT_ONCE = 1 << 16
_GROUP_BITS = 40
_GROUP_MASK = (1 << _GROUP_BITS) - 1

Stepped = Callable[[int], None]
"""Called with the number of steps done so far."""


@dataclass
class PlannedHashes:
    """The subtrees of a run's planned steps.

    Args:
        feed: Feed of the run.
        timeline: Samples of each step.
        contents: How the content of each source is identified, by name.

    Attributes:
        samples: Number of samples so far, by source.
    """

    feed: Feed
    timeline: AnyTimeline
    contents: Mapping[str, Content]
    samples: Counter[str] = field(default_factory=Counter)

    def subtree(self, steps: range) -> bytes:
        """Return the root over some steps."""
        return tree_root(self._leaves(steps))

    def _leaves(self, steps: range) -> Iterator[bytes]:
        plan = self.feed.plan
        start = steps.start
        while start < steps.stop:
            count = max(1, _SAMPLES_AT_ONCE // max(1, plan.rows(start, 0, 1, self.timeline)))
            block = range(start, min(steps.stop, start + count))
            samples = self._samples(plan.batches(block, 0, 1, self.timeline))
            at = 0
            for step in block:
                size = plan.rows(step, 0, 1, self.timeline)
                yield leaf(step, samples[at : at + size])
                at += size
            start = block.stop

    def _samples(self, planned: Planned) -> list[tuple[str, str, str] | None]:
        """Return source, ``group:id`` and content of planned samples; None for padding."""
        catalog = self.feed.catalog
        found: list[tuple[str, str, str] | None] = [None] * len(planned.item)
        for share in catalog.shares(planned):
            sources = planned.source[share.at]
            groups = planned.group[share.at]
            content = self.contents[catalog.sources[int(sources[0])]] if len(sources) else "ids"
            if content == "ids":
                contents: Sequence[str] = [""] * len(sources)
            else:
                contents = catalog.contents(share, content)
            pairs, number = np.unique((sources << _GROUP_BITS) + groups, return_inverse=True)
            names = [f"{catalog.group_name(pair >> _GROUP_BITS, pair & _GROUP_MASK)}:" for pair in pairs.tolist()]
            each = zip(share.at.tolist(), number.tolist(), share.items, contents, strict=True)
            for at, group, item, text in each:
                found[at] = (item.source, names[group] + item.name(), text)
            for source, count in zip(*np.unique(sources, return_counts=True), strict=True):
                self.samples[catalog.sources[int(source)]] += int(count)
        return found


def best_contents(feed: Feed) -> dict[str, Content]:
    """Return the strongest evidence of the content of each source, by name."""
    found: dict[str, Content] = {}
    for number, part in enumerate(feed.catalog.parts):
        known = feed.catalog.evidence(number)
        found |= dict.fromkeys(part.source_names, known[0] if known else "ids")
    return found


def make_receipt(
    feed: Feed,
    steps: range,
    config: Path,
    folder: Path,
    *,
    timeline: AnyTimeline | None = None,
    ledger: CheckedLedger | None = None,
    stepped: Stepped = lambda _: None,
) -> Receipt:
    """Make the receipt of some steps.

    Args:
        feed: Feed of the run.
        steps: Steps.
        config: YAML file of the run.
        folder: Folder of the receipt.
        timeline: Samples of each step; by default those of the feed.
        ledger: Ledgers that agree with the plan.
        stepped: Called now and then.

    Raises:
        IndexError: If a step is after the end of the run.
    """
    timeline = timeline or feed.timeline(feed.world)
    contents = best_contents(feed)
    hashes = PlannedHashes(feed, timeline, contents)
    roots = []
    for part in subtree_steps(steps):
        roots.append(hashes.subtree(part))
        stepped(part.stop - steps.start)
    return Receipt(
        penstock_receipt=1,
        says=PLANNED if ledger is None else AGREED,
        config=os.path.relpath(config, folder),
        steps=[steps.start, steps.stop],
        samples=hashes.samples.total(),
        state=write_state(feed.config, feed.identity, timeline, steps.stop),
        sources=[
            ReceiptSource(name=name, samples=hashes.samples[name], content=contents[name])
            for name in feed.catalog.sources
            if hashes.samples[name]
        ],
        ledger=ledger,
        root=tree_root(roots).hex(),
        subtrees=[base64.b64encode(root).decode() for root in roots],
    ).sealed()


def check_receipt(feed: Feed, receipt: Receipt, chosen: Sequence[int], stepped: Stepped = lambda _: None) -> list[str]:
    """Check a receipt against itself and against the plan.

    Args:
        feed: Feed of the run.
        receipt: Receipt.
        chosen: Subtrees to compute again.
        stepped: Called now and then.

    Returns:
        Descriptions of what does not agree; empty if everything does.

    Raises:
        ValueError: If the plan is another one, or content is known less well than in the receipt.
    """
    wrong = _altered(receipt)
    _resume(feed, receipt)
    hashes = PlannedHashes(feed, feed.timeline(feed.world), _required_contents(feed, receipt))
    parts = subtree_steps(receipt.step_range())
    roots = receipt.roots()
    done = 0
    for number in chosen:
        if hashes.subtree(parts[number]) != roots[number]:
            steps = steps_text(parts[number].start, parts[number].stop)
            wrong.append(f"{steps}: not the samples of the plan, or other content")
        done += len(parts[number])
        stepped(done)
    if len(chosen) == len(parts):
        said = Counter({source.name: source.samples for source in receipt.sources})
        if said != hashes.samples or receipt.samples != hashes.samples.total():
            wrong.append("the numbers of samples are not those of the plan")
    return wrong


def _altered(receipt: Receipt) -> list[str]:
    """Return descriptions of how a receipt contradicts itself: it was altered after it was made."""
    wrong = []
    if receipt.sealed().seal != receipt.seal:
        wrong.append("the receipt was altered after it was made: its seal is wrong")
    if tree_root(receipt.roots()).hex() != receipt.root:
        wrong.append("the receipt was altered after it was made: its root is not that of its subtrees")
    return wrong


def _resume(feed: Feed, receipt: Receipt) -> None:
    """Continue from the state in a receipt, which has the batch sizes of its steps."""
    try:
        feed.resume(receipt.state)
    except StateError as error:
        if error.differences:
            raise ValueError(
                f"the config or the data have changed since the receipt was made: {'; '.join(error.differences)}"
            ) from None
        raise ValueError(f"the receipt has no valid state: {error}") from None


def _required_contents(feed: Feed, receipt: Receipt) -> dict[str, Content]:
    """Return how the content of each source is identified in a receipt.

    Raises:
        ValueError: If it is known less well here.
    """
    found: dict[str, Content] = {source.name: source.content for source in receipt.sources}
    for number, part in enumerate(feed.catalog.parts):
        known = ("ids", *feed.catalog.evidence(number))
        for name in part.source_names:
            if found.setdefault(name, "ids") not in known:
                raise ValueError(
                    f"source {name!r}: the receipt has {CONTENTS[found[name]]}, and the index here does not; index the "
                    f"data{' with penstock index --sha256' if found[name] == 'sha256' else ''}"
                )
    return found
