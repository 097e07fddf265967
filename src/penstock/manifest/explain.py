"""What is wrong with a filelist, line by line. Slow and exact: read only when the quick checks have failed."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from penstock.manifest.errors import SHOWN, Problems

COLUMNS = ("shard", "id", "language", "seconds")
MAX_SECONDS = 24 * 3600.0

_NUMBER = re.compile(r"[ \t]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)
_UNDECODED = re.compile("[\udc80-\udcff]")


def find_problems(path: Path, known_shards: Collection[str] | None = None) -> Problems:
    """Every problem of a filelist, with its line number. A line ends with LF, CRLF or CR; empty lines are ignored."""
    problems = Problems(str(path))
    first_line: dict[str, int] = {}
    known = None if known_shards is None else set(known_shards)
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line:
                continue
            where = f"{path.name}:{number}"
            if _UNDECODED.search(line):
                problems.add("not UTF-8", where, f"not valid UTF-8: {line.encode('utf-8', 'surrogateescape')[:80]!r}")
                continue
            fields = line.split("\t")
            if len(fields) != len(COLUMNS):
                reason = (
                    f"{len(fields)} columns where {len(COLUMNS)} are needed: shard, id, language, seconds (by tabs)"
                )
                problems.add("columns", where, reason)
                continue
            for name, value in zip(COLUMNS[:3], fields[:3], strict=True):
                if not value:
                    problems.add(f"empty {name}", where, f"the {name} is empty")
            reason = wrong_seconds(fields[3])
            if reason:
                problems.add("seconds", where, reason)
            shard, name = fields[:2]
            earlier = first_line.setdefault(f"{shard}\t{name}", number)
            if earlier != number:
                problems.add("duplicate", where, f"{shard}:{name} is already on line {earlier}")
            if known is not None and shard and shard not in known:
                near = _nearest(shard, known) if len(problems.first) < SHOWN else ""
                problems.add("unknown shard", where, f"there is no shard {shard}{near}")
    return problems


def wrong_seconds(text: str) -> str:
    """Why a duration cannot be used, or nothing."""
    if text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return f"seconds must be a finite number, not {text!r}"
    if not _NUMBER.fullmatch(text):
        return f"seconds is not a number: {text!r}"
    seconds = float(text)
    if seconds < 0:
        return f"seconds is negative: {text}"
    if round(min(seconds, MAX_SECONDS) * 1e6) == 0:
        return f"seconds is zero: {text} (a clip that lasts no time cannot be a sample)"
    if seconds > MAX_SECONDS:
        return f"seconds is absurd: {text} is over 24 hours (milliseconds, or samples, by mistake?)"
    return ""


def _nearest(name: str, known: set[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; the nearest is {near[0]}" if near else ""
