"""What determines the order of a run, and how two runs differ. Knows nothing of files and of positions."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

_SOURCE_DIGITS = 4  # hexadecimal digits per source in a state, to name the sources that differ
_MAX_NAMED_SOURCES = 100  # sources with digits: a state stays under 1 kB


class Identity(NamedTuple):
    """Everything that determines the order of a run.

    Attributes:
        seed: Seed of the run.
        sources: Name, fingerprint and, if set, limit of each source, in order.
        run: Kind of the run: endless, rounds or a number of passes, and whether it is in file order.
        lanes: Number of lanes.
        pool: Resident groups per source and lane, or over all sources; None in file order, which does not depend on it.
        mixture: (first sample, slots per source in a period) of every mixture; for rounds, samples per epoch.
        first: Sample from which the order depends on each source, None if it never does; empty for rounds and finite
            runs, which depend on all sources from the start.
        exclude: (first sample, digest of the items) of every entry of ``exclude``.
    """

    seed: int
    sources: tuple[tuple[str | int, ...], ...]
    run: str
    lanes: int
    pool: int | Mapping[str, int] | None
    mixture: tuple[tuple[int, tuple[int, ...]], ...]
    first: tuple[int | None, ...] = ()
    exclude: tuple[tuple[int, str], ...] = ()

    def fingerprint(self, samples: int) -> dict[str, str | int]:
        """Return the fingerprint of the order up to a sample. Later mixtures, sources and exclusions are left out.

        Up to the last source that was drawn, sources count in order; those that were not drawn by name only.
        """
        past = self._past(samples)
        weighted = [at for _, counts in past for at, count in enumerate(counts) if count]
        width = max(weighted, default=-1) + 1 if self.first else None
        mixture = [(at, counts[:width]) for at, counts in past]
        return self._fingerprint(self._known(samples), mixture) | self._excluded(samples)

    def fingerprint_like(self, theirs: Mapping[str, Any], samples: int) -> dict[str, str | int]:
        """Return the fingerprint of the order up to a sample, to compare it with another one.

        Earlier releases included all listed sources. If ``theirs`` does and the sources are the same, so does this one.
        """
        mine = self.fingerprint(samples)
        if not self.first or mine["items"] == theirs.get("items"):
            return mine
        listed = len(str(theirs.get("sources", ""))) // _SOURCE_DIGITS
        past = self._past(samples)
        for count in range(listed, listed + 1 if listed < _MAX_NAMED_SOURCES else len(self.sources) + 1):
            is_theirs = _digest(self.sources[:count]) == theirs.get("items")
            if is_theirs and not any(any(counts[count:]) for _, counts in past):
                mixture = [(at, counts[:count]) for at, counts in past]
                return self._fingerprint(self.sources[:count], mixture) | self._excluded(samples)
        return mine

    def _past(self, samples: int) -> list[tuple[int, tuple[int, ...]]]:
        return [change for change in self.mixture if change[0] < samples]

    def _known(self, samples: int) -> tuple[tuple[str | int, ...], ...]:
        """Return what a fingerprint includes of the sources."""
        if not self.first:
            return self.sources
        drawn = [first is not None and first < samples for first in self.first]
        end = max((at for at, is_drawn in enumerate(drawn) if is_drawn), default=-1) + 1
        return tuple(
            source if is_drawn else source[:1] for source, is_drawn in zip(self.sources[:end], drawn[:end], strict=True)
        )

    def _fingerprint(
        self, sources: tuple[tuple[str | int, ...], ...], mixture: list[tuple[int, tuple[int, ...]]]
    ) -> dict[str, str | int]:
        return {
            "seed": self.seed,
            "items": _digest(sources),
            "sources": "".join(_digits(sources)),
            "run": self.run,
            "mixture": _digest(mixture),
        }

    def _excluded(self, samples: int) -> dict[str, str | int]:
        """Return the key of a fingerprint for exclusions; none without them, as in states of earlier releases."""
        past = [each for each in self.exclude if each[0] < samples]
        return {"exclude": _digest(past)} if past else {}

    def differing_sources(self, digits: str, samples: int) -> list[str]:
        """Return the sources whose digits differ from another fingerprint; empty if it has another number of them."""
        theirs = _split(digits)
        for known in (self._known(samples), self.sources[: len(theirs)]):
            mine = _digits(known)
            if len(mine) == len(theirs):
                return [str(known[at][0]) for at, own in enumerate(mine) if own != theirs[at]]
        return []

    def new_sources(self, digits: str, samples: int) -> list[str]:
        """Return the sources that another fingerprint lacks; empty if it differs in any other source."""
        known = self._known(samples)
        theirs = _split(digits)
        new = []
        for source, own in zip(known, _digits(known), strict=False):
            if theirs and theirs[0] == own:
                theirs = theirs[1:]
            else:
                new.append(str(source[0]))
        return [] if theirs or not digits else new

    def undrawn_sources(self, samples: int) -> list[str]:
        """Return the sources that have a weight before a sample, but are not drawn before it."""
        weighted = {at for _, counts in self._past(samples) for at, count in enumerate(counts) if count}
        firsts = [(at, self.first[at]) for at in sorted(weighted)] if self.first else []
        return [str(self.sources[at][0]) for at, first in firsts if first is None or first >= samples]


def _digits(sources: tuple[tuple[str | int, ...], ...]) -> list[str]:
    return [_digest(source)[:_SOURCE_DIGITS] for source in sources[:_MAX_NAMED_SOURCES]]


def _split(digits: str) -> list[str]:
    return [digits[at : at + _SOURCE_DIGITS] for at in range(0, len(digits), _SOURCE_DIGITS)]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def describe(identity: Identity, samples: int, epoch: int | None) -> dict[str, str | int | Mapping[str, int] | None]:
    """Describe everything that determines the order of a run up to a sample.

    Args:
        identity: Identity of the run.
        samples: Number of samples. Later mixtures are left out.
        epoch: Samples per epoch, if no batch crosses the end of one.
    """
    return {**identity.fingerprint(samples), "epoch": epoch, "lanes": identity.lanes, "pool": identity.pool}


def differences(theirs: Mapping[str, Any], identity: Identity, samples: int, epoch: int | None) -> list[str]:
    """Return descriptions of what differs between this run and another one.

    Args:
        theirs: Description of the other run.
        identity: Identity of this run.
        samples: Number of samples. Later mixtures and sources are left out.
        epoch: Samples per epoch of this run.
    """
    mine = {"exclude": None} | describe(identity, samples, epoch) | identity.fingerprint_like(theirs, samples)
    differing = {name: f"{theirs.get(name)} then, {mine[name]} now" for name in mine if theirs.get(name) != mine[name]}
    digits = str(theirs.get("sources", ""))
    differing.pop("sources", None)  # their digits only name the sources whose items differ
    if "items" in differing:
        new = identity.new_sources(digits, samples)
        differing["items"] = _items(digits, str(mine["sources"]), identity, samples) or differing["items"]
        if new and identity.first:
            differing.pop("mixture", None)  # it follows from the sources
    if "mixture" in differing and identity.first:
        differing["mixture"] += f"; keep the old weights in the list, and give the new ones `at: {samples}` or later"
        waiting = identity.undrawn_sources(samples)
        if waiting:
            differing["mixture"] += f"; if {_listed(waiting)} came later, list them last, with `at: {samples}` or later"
    if "exclude" in differing:
        first = min((at for at, _ in identity.exclude if at < samples), default=None)
        then = "none" if theirs.get("exclude") is None else "some items"
        now = "none" if first is None else f"{'other' if then != 'none' else 'some'} items from sample {first:,} on"
        differing["exclude"] = f"{then} then, {now} now"
    return [f"{name} ({text})" for name, text in differing.items()]


def _items(theirs: str, mine: str, identity: Identity, samples: int) -> str:
    """Describe how sources differ; empty if their digits do not show it."""
    new = identity.new_sources(theirs, samples)
    if new and not identity.first:
        return f"new: {_listed(new)}; rounds and finite runs have all of their sources from the start"
    if new:
        return f"new: {_listed(new)}; list new sources last, with `at: {samples}` or later in each of their entries"
    changed = identity.differing_sources(theirs, samples)
    if changed:
        return f"of {_listed(changed)}"
    counts = [len(digits) // _SOURCE_DIGITS for digits in (theirs, mine)]
    if counts[0] == counts[1]:
        return ""
    dropped = "; a source that is no longer drawn stays listed, with weight 0" if counts[0] > counts[1] else ""
    return f"{counts[0]} sources then, {counts[1]} now{dropped}"


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:5])}{' …' if names[5:] else ''}"
