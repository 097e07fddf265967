"""Which records are held out for evaluation, by a hash of their id. Knows no file, no seed and no plan."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

IDS = ("id", "uuid", "_id", "conversation_id", "question_id", "sample_id")
_WORDS = 1 << 64


@dataclass(frozen=True, slots=True)
class Holdout:
    """A share of the records, always the same ones.

    A record is identified by its own id, the first of ``IDS`` that it has, else by all of its text. So it does not
    matter in which file it lies, or in which order, and two equal records are on the same side.

    Attributes:
        share: Share of the records that are held out, from 0 to 1.
        held_out: Whether the run takes the records that are held out, and not the others.
    """

    share: float
    held_out: bool = False

    def takes(self, record: Mapping[str, object], media: Collection[str] = ()) -> bool:
        """Return whether a record is for this run.

        Args:
            record: Record as its file has it.
            media: Media columns, in lower case. They are ignored.
        """
        return (_hash(record, media) < self.share * _WORDS) == self.held_out

    @property
    def key(self) -> str:
        """Names the choice in fingerprints."""
        return f"{self.reason} {self.share!r}"

    @property
    def reason(self) -> str:
        """Why a record is not for this run."""
        return "not held out" if self.held_out else "held out"


def _hash(record: Mapping[str, object], media: Collection[str]) -> int:
    own = next((record[name] for name in IDS if isinstance(record.get(name), str | int)), None)
    if own is None:
        kept = {name: value for name, value in record.items() if name.lower() not in media}
        own = json.dumps(kept, sort_keys=True, default=_as_json)
    return int.from_bytes(hashlib.sha256(str(own).encode(errors="replace")).digest()[:8], "little")


def _as_json(value: object) -> str | None:
    return None if hasattr(value, "readinto") else str(value)  # bytes of a medium that are not read
