"""Which speakers or clips are held out of training. Pure, and only by name: adding data never moves a speaker."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPEAKER = "speaker"  # the field of a sample's .json that names who speaks


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Speakers and clips to hold out.

    Attributes:
        speakers: Names of the speakers to hold out.
        ids: Ids of the clips to hold out; ``shard:id`` if an id occurs in several shards.
        share: Share of all speakers to hold out, with all their clips, selected by the hash of their names. A clip
            without a speaker counts as a speaker of its own.
    """

    speakers: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"the held-out share must be at least 0 and less than 1, not {self.share:g}")

    def __bool__(self) -> bool:
        return bool(self.speakers or self.ids or self.share)

    @property
    def by_speaker(self) -> bool:
        return bool(self.speakers or self.share)

    def name_of(self, shard: str, item: str, fields: Mapping[str, object]) -> str | None:
        """Return the name (speaker or id) by which the clip is held out, or None if it is not."""
        for name in (item, f"{shard}:{item}"):
            if name in self.ids:
                return name
        if not self.by_speaker:
            return None
        named = fields.get(SPEAKER)
        speaker = f"{shard}:{item}" if named is None else str(named)
        listed = named is not None and speaker in self.speakers
        return speaker if listed or _fraction(speaker) < self.share else None


def read_names(path: Path) -> frozenset[str]:
    """Read names from a file, one per line.

    Raises:
        ValueError: If the file has no names.
    """
    names = frozenset(line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    if not names:
        raise ValueError(f"{path}: no names in it; expected one per line")
    return names


def _fraction(name: str) -> float:
    """The hash of a name, as a number in [0, 1)."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "big") / 2**48
