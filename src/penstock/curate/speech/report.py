"""The outcome of every clip: clips and seconds by outcome and language, with examples. Counts; shows nothing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

KEPT = "kept"
HELD_OUT = "held out"
EXAMPLES_PER_RULE = 3


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

    def as_json(self) -> dict[str, Any]:
        def amount(outcome: str, language: str) -> dict[str, Any]:
            return {"clips": self.total([outcome], language), "hours": round(self.hours([outcome], language), 6)}

        def by_language(outcome: str) -> dict[str, Any]:
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
