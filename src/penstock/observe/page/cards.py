"""One sample of a page as HTML: its place, what was bad, its panels, its other uses. Knows no recipe."""

from collections.abc import Iterator, Mapping, Sequence

from penstock.feed.batches import BadSample
from penstock.observe.page.drawn import left_out
from penstock.observe.page.ledgered import LedgeredStep
from penstock.observe.page.markup import Markup, element, joined
from penstock.observe.page.room import PageRoom
from penstock.observe.page.samples import PageSample
from penstock.plan.plan import Use
from penstock.recipes.panels import Panel, TextPanel

_TILE_TOKENS = 150  # of a member of a pack with media; a longer one takes the whole width
_OUTCOMES = {
    "replaced": "the next sample of the plan was taken",
    "empty": "its place was left empty",
    "padded": "its place in the pack is padding",
    "skipped": "it was skipped",
}


def card(
    sample: PageSample, step: int, number: int, room: PageRoom, pages: Mapping[int, str], ledgered: LedgeredStep | None
) -> Markup:
    """Return a sample as HTML.

    Args:
        sample: Sample to show.
        step: Step of the batch.
        number: Number of its source on the page.
        room: Room on the page, which draws panels.
        pages: Relative URLs of the pages of steps.
        ledgered: What the ledger reports of the step, if given.
    """
    remarks = ledgered.differences(sample.rank, sample.slot, sample.bad) if ledgered else []
    losses = {each.member: each.loss for each in ledgered.losses_of(sample.rank, sample.slot)} if ledgered else {}
    is_wide = bool(sample.members) or any(isinstance(panel, TextPanel) and panel.tokens for panel in sample.panels)
    body = (
        element("div", _members(sample, step, room, pages, losses), class_="members")
        if sample.members
        else [
            [room.draw(panel) for panel in sample.panels],
            _uses(sample, sample.item, step, pages),
        ]
    )
    name = f"Pack of {counted(len(sample.members), 'sample')}" if sample.members else sample.item
    return element(
        "article",
        element(
            "header",
            element("a", f"{sample.slot}", href=f"#{anchor(sample.rank, sample.slot)}", class_="slot", title="slot"),
            element("h3", _isolated(name), _loss(losses, "")),
            element("p", _isolated(sample.source), " · ", _isolated(sample.group), f" · epoch {sample.epoch}"),
        ),
        [bad_note(each) for each in sample.bad],
        [element("p", remark, class_="bad") for remark in remarks],
        body,
        id=anchor(sample.rank, sample.slot),
        class_=f"card s{number}{' wide' if is_wide else ''}",
    )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def counted_samples(members: Sequence[int]) -> str:
    """Return a number of samples in words: ``57 samples in 4 packs``.

    Args:
        members: Number of members of each sample; 0 if it is not a pack.
    """
    packs = [count for count in members if count]
    if not packs:
        return counted(len(members), "sample")
    others = len(members) - len(packs)
    beside = f", and {counted(others, 'unpacked sample')}" if others else ""
    return f"{counted(sum(packs), 'sample')} in {counted(len(packs), 'pack')}{beside}"


def anchor(rank: int, slot: int) -> str:
    """Return the id of a sample's element, for links."""
    return f"rank-{rank}-slot-{slot}"


def bad_note(bad: BadSample) -> Markup:
    """Return a bad sample in words."""
    what = _OUTCOMES.get(bad.outcome, bad.outcome)
    return element("p", _isolated(f"{bad.group}:{bad.id}"), f" was bad: {bad.reason}; {what}.", class_="bad")


def _isolated(name: str) -> Markup:
    """Return a name whose writing direction does not affect the text around it."""
    return element("bdi", name)


def _members(
    sample: PageSample, step: int, room: PageRoom, pages: Mapping[int, str], losses: Mapping[str, float]
) -> Iterator[Markup | None]:
    """Yield the panels of a pack, those of each member under its id, and then media whose member is not known."""
    own: dict[int | None, list[Panel]] = {}
    for panel in sample.panels:
        own.setdefault(panel.member, []).append(panel)
    whole = own.pop(None, [])
    yield joined(room.draw(panel) for panel in whole[:1])
    if len(sample.uses) < len(sample.members):
        yield left_out(f"Other uses are shown of the first {len(sample.uses)} samples only.")
    good = [number for number in range(len(sample.members)) if number in own]
    for at, number in enumerate(good):
        if room.is_full:
            yield room.left_out(f"{len(good) - at} more samples: the page is full", len(good) - at)
            break
        name = sample.members[number]
        loss = _loss(losses, f"{sample.group}:{name}")
        head = room.spend(element("h5", _isolated(name), loss, _uses(sample, name, step, pages)))
        first = own[number][0]
        text, *media = [room.draw(panel) for panel in own[number]]
        is_tile = media and isinstance(first, TextPanel) and len(first.pieces) <= _TILE_TOKENS
        yield element("div", head, text, _media(media), class_="member tile" if is_tile else "member")
    yield _media([room.draw(panel) for panel in whole[1:]])


def _media(panels: Sequence[Markup]) -> Markup | None:
    return element("div", panels, class_="media") if panels else None


def _loss(losses: Mapping[str, float], member: str) -> Markup | None:
    return element("span", f"loss {losses[member]:.4g}", class_="loss") if member in losses else None


def _uses(sample: PageSample, name: str, step: int, pages: Mapping[int, str]) -> Markup | None:
    if name not in sample.uses:
        return None
    uses = sorted(sample.uses[name], key=lambda use: use.step)  # in batches by length, epochs overlap
    here = [(use.step, use.rank, use.slot) == (step, sample.rank, sample.slot) for use in uses]
    shown = [_use(use, is_here, pages) for use, is_here in zip(uses, here, strict=True)]
    if not any(here):
        shown.append(element("li", "here as a substitute", class_="here"))
    return element("ul", shown, class_="uses", aria_label="uses of this item")


def _use(use: Use, is_here: bool, pages: Mapping[int, str]) -> Markup:
    said = f"step {use.step:,}"
    link = f"{pages[use.step]}#{anchor(use.rank, use.slot)}" if use.step in pages else None
    note = f"epoch {use.epoch}, rank {use.rank}, slot {use.slot}"
    shown = element("a", said, href=link) if link and not is_here else said
    return element("li", shown, class_="here" if is_here else None, title=note)
