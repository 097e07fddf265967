"""Measured shards -> which clips are kept and which are held out, with a report. Reads nothing."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.curate.speech.holdout import SPEAKER, HoldOut
from penstock.curate.speech.measured import Measured
from penstock.curate.speech.report import HELD_OUT, KEPT, Report
from penstock.curate.speech.rules import Clip, Drop, Rules
from penstock.media.audio.quality import Quality
from penstock.readers.tar.facts import load_json

Rows = NDArray[np.int64]

_COLUMNS = ("id", "language", "problem", "why", "json")
_QUALITY = ("seconds", "clipping", "silence", "snr")


class Judge:
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
            ValueError: a rule uses a field that no clip has.
        """
        asked = [(f"where {condition}", condition.field) for condition in self._rules.where]
        if self._hold_out.by_speaker:
            asked.append(("held-out speakers", SPEAKER))
        for what, field in asked:
            if field not in self._fields and field.partition(".")[0] not in self._fields:
                near = get_close_matches(field, self._fields, n=1)
                known = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(sorted(self._fields)[:20])}"
                raise ValueError(f"{what}: no clip's .json has a field {field!r}; {known if self._fields else ''}")
        self.report.not_found = sorted((self._hold_out.speakers | self._hold_out.ids) - self._names)
        return self.report

    def _clips(self, measured: Measured) -> Iterator[tuple[str, Clip, Drop | None]]:
        """Id, clip, and why it is unusable under any rules, or None."""
        columns = [measured.clips.column(name).to_pylist() for name in _COLUMNS]
        qualities = [measured.clips.column(name).to_pylist() for name in _QUALITY]
        for (item, language, problem, why, text), values in zip(
            zip(*columns, strict=True), zip(*qualities, strict=True), strict=True
        ):
            unusable = Drop(f"unusable {problem}", why) if problem else None
            fields = {} if unusable else self._parse(text)
            yield item, Clip(language, Quality(*values), fields), unusable

    def _parse(self, text: bytes | None) -> dict[str, Any]:
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
