"""Makes the page of a step: one HTML file without scripts, within limits. Knows no recipe.

Its Content-Security-Policy allows its own style sheet and embedded media, and nothing else.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.feed import Feed
from penstock.observe.page.cards import bad_note, card, counted, counted_samples
from penstock.observe.page.document import document
from penstock.observe.page.drawn import left_out
from penstock.observe.page.ledgered import LedgeredStep, PageLedger
from penstock.observe.page.markup import Child, Markup, element, joined
from penstock.observe.page.room import PageRoom
from penstock.observe.page.samples import PageBatch, page_batch
from penstock.recipes.panels import SoundPanel

PAGE_BYTES = 20_000_000
PAGE_SAMPLES = 64
GENERATOR = "penstock replay"
_SOUND_SHARE = 0.85  # of the page
_RESERVED_BYTES = 200_000  # for what is always there: the style sheet, the header, the heads of 64 samples


@dataclass(frozen=True, slots=True)
class PageOptions:
    """What the pages of a run have in common.

    Attributes:
        name: Name of the run.
        ranks: Ranks to show.
        world: Number of ranks.
        pages: Relative URL of the page of each step that is made.
        ledger: Ledger of the run, if given.
    """

    name: str
    ranks: Sequence[int]
    world: int
    pages: Mapping[int, str]
    ledger: PageLedger | None = None


def make_page(feed: Feed, step: int, options: PageOptions) -> str:
    """Return the page of a step, at most 64 samples and 20 MB.

    Raises:
        ValueError: If the ledger has the step with another number of ranks or another batch size.
    """
    ledgered = None if options.ledger is None else options.ledger.step(step, options.world)
    batches: list[PageBatch] = []
    room = PAGE_SAMPLES
    for rank in options.ranks:
        if room <= 0:
            break
        batches.append(page_batch(feed, step, rank, options.world, room))
        room -= len(batches[-1].samples)
    sources = Counter(sample.source for batch in batches for sample in batch.samples)
    cards, dropped = _cards(batches, step, list(sources), options.pages, ledgered)
    notes = _left_out(feed, step, batches, options, dropped)
    remarks = [ledgered.made(batch.rank) for batch in batches] if ledgered else []
    head = _header(step, options, batches, sources, notes, remarks)
    return _document(f"Step {step} of {options.name}", joined(head, element("main", cards)), len(sources))


def _room(batches: Sequence[PageBatch]) -> PageRoom:
    panels = [panel for batch in batches for sample in batch.samples for panel in sample.panels]
    sounds = sum(isinstance(panel, SoundPanel) for panel in panels)
    for_sounds = int(PAGE_BYTES * _SOUND_SHARE * 3 / 4)  # base64 makes four bytes of three
    return PageRoom(PAGE_BYTES - _RESERVED_BYTES, for_sounds // max(1, sounds))


def _cards(
    batches: Sequence[PageBatch],
    step: int,
    sources: list[str],
    pages: Mapping[int, str],
    ledgered: LedgeredStep | None,
) -> tuple[list[Markup], int]:
    """Return the cards of all samples, and how many panels the page had no room for."""
    room = _room(batches)
    cards: list[Markup] = []
    for batch in batches:
        if len(batches) > 1:
            cards.append(element("h2", f"Rank {batch.rank}"))
        cards += [bad_note(bad) for bad in batch.empty]
        for sample in batch.samples:
            cards.append(card(sample, step, sources.index(sample.source), room, pages, ledgered))
    return cards, room.dropped


def _left_out(feed: Feed, step: int, batches: Sequence[PageBatch], options: PageOptions, dropped: int) -> list[str]:
    """Return what the page does not show, in words."""
    shown = sum(len(batch.samples) for batch in batches)
    rest = [rank for rank in options.ranks if rank not in [batch.rank for batch in batches]]
    total = sum(batch.total for batch in batches)
    total += sum(int((feed.planned(step, rank, options.world).item >= 0).sum()) for rank in rest)
    are_packs = any(sample.members for batch in batches for sample in batch.samples)
    what = "packs and samples" if are_packs else "samples"
    notes = [f"{shown} of {total} {what} are shown"] if shown < total else []
    if len(options.ranks) < options.world:
        notes.append(f"only rank {options.ranks[0]} of {options.world} is shown")
    if dropped:
        notes.append(f"{counted(dropped, 'part')} without room in {PAGE_BYTES // 1_000_000} MB")
    return notes


def _header(
    step: int,
    options: PageOptions,
    batches: Sequence[PageBatch],
    sources: Mapping[str, int],
    notes: Sequence[str],
    remarks: Sequence[str],
) -> Markup:
    samples = [sample for batch in batches for sample in batch.samples]
    bad = sum(len(sample.bad) for sample in samples) + sum(len(batch.empty) for batch in batches)
    facts = [
        counted_samples([len(sample.members) for sample in samples]),
        counted(len(sources), "source"),
        counted(options.world, "rank"),
        f"{bad} bad" if bad else "",
    ]
    return element(
        "header",
        element("p", element("bdi", options.name), class_="run"),
        element("div", element("h1", f"Step {step:,}"), _pager(step, options.pages), class_="title"),
        element("p", " · ".join(filter(None, facts)), class_="facts"),
        [element("p", remark, class_="facts") for remark in remarks],
        left_out(f"Left out: {'; '.join(notes)}.") if notes else None,
        _filter(sources) if len(sources) > 1 else None,
        class_="top",
    )


def _pager(step: int, pages: Mapping[int, str]) -> Markup:
    links = [
        element("a", label, href=pages[other], rel=rel)
        for other, label, rel in ((step - 1, f"← {step - 1:,}", "prev"), (step + 1, f"{step + 1:,} →", "next"))
        if other in pages
    ]
    return element("nav", links, aria_label="other steps")


def _filter(sources: Mapping[str, int]) -> Markup:
    """Return one radio button per source. The style sheet hides the cards of the others: no script is needed."""
    choices: list[Child] = [_choice("all", "All", sum(sources.values()), checked=True)]
    choices += [_choice(f"s{number}", name, count) for number, (name, count) in enumerate(sources.items())]
    return element("fieldset", element("legend", "Source"), choices)


def _choice(name: str, label: str, count: int, checked: bool = False) -> Markup:
    button = element("input", type="radio", name="source", id=name, checked=checked)
    return element("label", button, element("span", element("bdi", label), " ", element("small", str(count))))


def _document(title: str, body: Markup, sources: int) -> str:
    rules = (f"body:has(#s{number}:checked) .card:not(.s{number}){{display:none}}" for number in range(sources))
    return document(title, body, "\n".join(rules), GENERATOR)
