"""The errors of a filelist, line by line. Slow and exact: used only if the fast checks have failed."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from penstock.manifest.errors import MAX_SHOWN, Problems

COLUMNS = ("shard", "id", "language", "seconds")
MAX_SECONDS = 24 * 3600.0

_NUMBER = re.compile(r"[ \t]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)
_WORD = re.compile(r"\s*[^\W\d][\w ()]{0,40}\s*")
_UNDECODED = re.compile("[\udc80-\udcff]")


def find_problems(path: Path, known_shards: Collection[str] | None = None) -> Problems:
    """Find every problem of a filelist. A line ends with LF, CRLF or CR; empty lines are ignored.

    Args:
        path: Filelist.
        known_shards: Paths of all shards; None if they are unknown.

    Returns:
        Problems with their line numbers.
    """
    problems = Problems(str(path))
    first = True
    first_line: dict[str, int] = {}
    known = None if known_shards is None else set(known_shards)
    unknown: dict[str, list[int]] = {}  # the first line and the number of lines of each unknown shard
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line:
                continue
            fields = line.split("\t") if line.isascii() or not _UNDECODED.search(line) else []
            if first and _is_header(fields):
                reason = f"is a header line ({', '.join(fields)}); a filelist has none: remove it"
                problems.add("header", f"{path.name}:{number}", reason)
                first = False
                continue
            first = False
            for kind, reason in _wrong_by_itself(line, fields):
                problems.add(kind, f"{path.name}:{number}", reason)
            if len(fields) != len(COLUMNS):
                continue
            shard, name = fields[:2]
            earlier = first_line.setdefault(f"{shard}\t{name}", number)
            if earlier != number:
                problems.add("duplicate", f"{path.name}:{number}", f"{shard}:{name} is already on line {earlier}")
            if known is not None and shard and shard not in known:
                unknown.setdefault(shard, [number, 0])[1] += 1
    for shard, (number, count) in unknown.items():
        near = _nearest(shard, known or set()) if len(problems.first) < MAX_SHOWN else ""
        lines = f" ({count:,} lines name it, this is the first)" if count > 1 else ""
        problems.add("unknown shard", f"{path.name}:{number}", f"there is no shard {shard}{lines}{near}")
    return problems


def _is_header(fields: list[str]) -> bool:
    """Return whether the first line names columns: words where a shard and a number should be."""
    if len(fields) != len(COLUMNS):
        return False
    return all(_WORD.fullmatch(field) for field in (fields[0], fields[3])) and "finite" not in wrong_seconds(fields[3])


def _wrong_by_itself(line: str, fields: list[str]) -> list[tuple[str, str]]:
    """Return kinds and reasons of the problems of a single line. No fields: it could not be decoded."""
    if not fields:
        return [("not UTF-8", f"not valid UTF-8: {line.encode('utf-8', 'surrogateescape')[:80]!r}")]
    if len(fields) != len(COLUMNS):
        return [("columns", f"{len(fields)} columns where 4 are needed: shard, id, language, seconds (by tabs)")]
    names = zip(COLUMNS[:3], fields[:3], strict=True)
    wrong = [(f"empty {name}", f"the {name} is empty") for name, value in names if not value]
    reason = wrong_seconds(fields[3])
    return [*wrong, ("seconds", reason)] if reason else wrong


def wrong_seconds(text: str) -> str:
    """Return why a duration cannot be used; empty if it can."""
    if not _NUMBER.fullmatch(text):
        if text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
            return f"seconds must be a finite number, not {text!r}"
        return f"seconds is not a number: {text!r}"
    seconds = float(text)
    if seconds < 0:
        return f"seconds is negative: {text}"
    if seconds > MAX_SECONDS:
        return f"seconds is too large: {text} is over 24 hours (is it in milliseconds or samples?)"
    if round(seconds * 1e6) == 0:
        return f"seconds is zero: {text} (an empty clip cannot be a sample)"
    return ""


def _nearest(name: str, known: set[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; the nearest is {near[0]}" if near else ""
