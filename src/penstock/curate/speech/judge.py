"""Measured shards -> which clips are kept and which are held out, with a report of all outcomes. Reads nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from penstock.curate.speech.holdout import SPEAKER, HoldOut
from penstock.curate.speech.measured import Measured
from penstock.curate.speech.rules import Drop, MeasuredClip, Rules
from penstock.media.audio.quality import Quality
from penstock.runtime.jsontext import load_json

KEPT = "kept"
HELD_OUT = "held out"
EXAMPLES_PER_RULE = 3
Rows = NDArray[np.int64]

_COLUMNS = ("id", "language", "problem", "why", "json")
_QUALITY = ("seconds", "clipping", "silence", "snr")


@dataclass
class Report:
    """Keys are (outcome, language); an outcome is KEPT, HELD_OUT or the rule that was broken."""

    clips: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    broken_shards: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)
    """Names to hold out that no clip has that passed the rules."""

    def count(self, outcome: str, language: str, seconds: float, example: str = "") -> None:
        self.clips[outcome, language] += 1
        self.seconds[outcome, language] += seconds  # type: ignore[assignment]  # a Counter adds up any numbers
        if example and len(shown := self.examples.setdefault(outcome, [])) < EXAMPLES_PER_RULE:
            shown.append(example)

    @property
    def rules(self) -> list[str]:
        """The rules that were broken, sorted by dropped hours, most first."""
        broken = {outcome for outcome, _ in self.clips} - {KEPT, HELD_OUT}
        return sorted(broken, key=lambda rule: (-self.hours([rule]), -self.total([rule]), rule))

    @property
    def languages(self) -> list[str]:
        """All languages, sorted by hours, most first."""
        names = {language for _, language in self.clips}
        return sorted(names, key=lambda name: (-self.hours([KEPT, HELD_OUT, *self.rules], name), name))

    def total(self, outcomes: Iterable[str], language: str | None = None) -> int:
        return sum(n for (outcome, name), n in self.clips.items() if outcome in outcomes and language in (None, name))

    def hours(self, outcomes: Iterable[str], language: str | None = None) -> float:
        return sum(s for (o, name), s in self.seconds.items() if o in outcomes and language in (None, name)) / 3600

    def as_json(self) -> dict[str, object]:
        def amount(outcome: str, language: str) -> dict[str, object]:
            return {"clips": self.total([outcome], language), "hours": round(self.hours([outcome], language), 6)}

        def by_language(outcome: str) -> dict[str, object]:
            return {name: amount(outcome, name) for name in self.languages if (outcome, name) in self.clips}

        dropped = {
            rule: {"languages": by_language(rule), "examples": self.examples.get(rule, [])} for rule in self.rules
        }
        return {
            "kept": by_language(KEPT),
            "held_out": by_language(HELD_OUT),
            "dropped": dropped,
            "broken_shards": self.broken_shards,
            "not_found": self.not_found,
        }


class ClipJudge:
    """Takes shards one after the other; ``report`` is complete after ``close``."""

    def __init__(self, rules: Rules, hold_out: HoldOut) -> None:
        self.report = Report()
        self._rules = rules
        self._hold_out = hold_out
        self._asks_fields = bool(rules.where) or hold_out.by_speaker
        self._fields: set[str] = set()
        self._names: set[str] = set()

    def split(self, measured: Measured) -> tuple[Rows, Rows]:
        """Return the rows that are kept and those that are held out. Both must pass the rules."""
        chosen: dict[str, list[int]] = {KEPT: [], HELD_OUT: []}
        shard = measured.shard.path
        for row, (item, clip, unusable) in enumerate(self._clips(measured)):
            drop = unusable or self._rules.broken_by(clip)
            if drop:
                example = f"{shard}:{item}: {drop.why}"
                self.report.count(drop.rule, clip.language, clip.quality.seconds, example)
                continue
            name = self._hold_out.name_of(shard, item, clip.fields)
            if name is not None:
                self._names.add(name)
            outcome = KEPT if name is None else HELD_OUT
            self.report.count(outcome, clip.language, clip.quality.seconds)
            chosen[outcome].append(row)
        return np.array(chosen[KEPT], dtype=np.int64), np.array(chosen[HELD_OUT], dtype=np.int64)

    def close(self) -> Report:
        """Return the report of all shards.

        Raises:
            ValueError: If a rule uses a field that no clip has.
        """
        asked = [(f"where {condition}", condition.field) for condition in self._rules.where]
        if self._hold_out.by_speaker:
            asked.append(("held-out speakers", SPEAKER))
        for what, name in asked:
            if name not in self._fields and name.partition(".")[0] not in self._fields:
                near = get_close_matches(name, self._fields, n=1)
                known = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(sorted(self._fields)[:20])}"
                raise ValueError(f"{what}: no clip's .json has a field {name!r}; {known if self._fields else ''}")
        self.report.not_found = sorted((self._hold_out.speakers | self._hold_out.ids) - self._names)
        return self.report

    def _clips(self, measured: Measured) -> Iterator[tuple[str, MeasuredClip, Drop | None]]:
        """Id, clip, and why it is unusable under any rules, or None."""
        columns = [measured.clips.column(name).to_pylist() for name in _COLUMNS]
        qualities = [measured.clips.column(name).to_pylist() for name in _QUALITY]
        for (item, language, problem, why, text), values in zip(
            zip(*columns, strict=True), zip(*qualities, strict=True), strict=True
        ):
            unusable = Drop(f"unusable {problem}", why) if problem else None
            fields = {} if unusable else self._parse(text)
            yield item, MeasuredClip(language, Quality(*values), fields), unusable

    def _parse(self, text: bytes | None) -> dict[str, object]:
        if text is None or not self._asks_fields:
            return {}
        try:
            fields = load_json(text)
        except ValueError:  # at the limit of nesting, which depends on the caller
            return {}
        if not isinstance(fields, dict):
            return {}
        self._fields.update(fields)
        return fields
