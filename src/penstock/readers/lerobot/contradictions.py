"""Contradictions in ``meta/``: lengths that do not add up, episodes that overlap. Opens no file."""

from collections.abc import Iterator

import numpy as np

from penstock.manifest.errors import Problem, Problems
from penstock.plan.draws import Ints
from penstock.readers.lerobot.episodes import Episodes, Seconds
from penstock.readers.lerobot.info import Info


def contradictions(episodes: Episodes, chosen: Ints, info: Info, name: str) -> Problems:
    """Return the contradictions in what ``meta/`` says about some episodes.

    Args:
        episodes: All episodes.
        chosen: Places of the episodes to check.
        info: Description of the dataset.
        name: Name of the dataset, for messages.
    """
    problems = Problems(name)
    for problem in _all(episodes, chosen, info):
        problems.add(problem.kind, problem.where, problem.reason)
    total = int(episodes.length.sum())
    if not problems and len(chosen) == len(episodes) and total != info.frames:
        reason = f"{info.frames} frames are announced, but the episodes have {total}"
        problems.add("frames", "meta/info.json", reason)
    return problems


def _all(episodes: Episodes, chosen: Ints, info: Info) -> Iterator[Problem]:
    is_empty = episodes.length[chosen] < 1
    for at in chosen[is_empty].tolist():
        reason = f"its length is {int(episodes.length[at])}, and an episode has at least 1 frame"
        yield Problem("length", _where(episodes, at), reason)
    there = chosen[~is_empty]
    yield from _wrong_rows(episodes, there)
    for key, seconds in episodes.videos.items():
        yield from _wrong_seconds(episodes, there, key, seconds, info.fps)


def _wrong_rows(episodes: Episodes, chosen: Ints) -> Iterator[Problem]:
    fits = episodes.stop - episodes.start == episodes.length
    for at in chosen[~fits[chosen]].tolist():
        reason = f"its length is {int(episodes.length[at])}, but its rows are {_rows(episodes, at)} of the dataset"
        yield Problem("length", _where(episodes, at), reason)
    good = chosen[fits[chosen]]
    order = good[np.argsort(episodes.start[good], kind="stable")]
    overlap = episodes.start[order[1:]] < episodes.stop[order[:-1]]
    for other, at in zip(order[:-1][overlap].tolist(), order[1:][overlap].tolist(), strict=True):
        those = f"those of episode {int(episodes.index[other])}, which are {_rows(episodes, other)}"
        reason = f"its rows are {_rows(episodes, at)} of the dataset, and overlap {those}"
        yield Problem("overlap", _where(episodes, at), reason)


def _wrong_seconds(episodes: Episodes, chosen: Ints, key: str, seconds: Seconds, fps: float) -> Iterator[Problem]:
    is_part = np.isfinite(seconds.start) & np.isfinite(seconds.end) & (seconds.start > -0.5 / fps)
    for at in chosen[~is_part[chosen]].tolist():
        reason = f"its time in the video of {key} is {_span(seconds, at)}, which is not possible"
        yield Problem("seconds", _where(episodes, at), reason)
    parts = chosen[is_part[chosen]]
    length = seconds.end[parts] - seconds.start[parts]
    fits = np.abs(length * fps - episodes.length[parts]) < 0.5
    fits |= (episodes.length[parts] == 1) & (length == 0)  # some writers measure no duration of a single frame
    for at, own in zip(parts[~fits].tolist(), length[~fits].tolist(), strict=True):
        reason = f"it has {int(episodes.length[at])} frames, but {own:.3f} s of {key} at {fps:g} fps"
        yield Problem("seconds", _where(episodes, at), reason)
    for other, at in _overlapping(seconds, parts[fits], 0.5 / fps):
        those = f"episode {int(episodes.index[other])}, which is at {_span(seconds, other)} of the same file"
        reason = f"it is at {_span(seconds, at)} of {key}, and overlaps {those}"
        yield Problem("overlap", _where(episodes, at), reason)


def _overlapping(seconds: Seconds, chosen: Ints, half_frame: float) -> Iterator[tuple[int, int]]:
    """Return pairs of episodes that follow each other in a video and have some frames in common, but not all.

    Those with all frames in common may be meant so, such as one demonstration under two tasks.
    """
    own = _at(seconds, chosen)
    order = chosen[np.lexsort((own.end, own.start, own.file, own.chunk))]
    one = _at(seconds, order[:-1])
    next_one = _at(seconds, order[1:])
    is_same_file = (one.chunk == next_one.chunk) & (one.file == next_one.file)
    is_early = next_one.start < one.end - half_frame
    differs = (next_one.start - one.start > half_frame) | (np.abs(next_one.end - one.end) > half_frame)
    [found] = np.nonzero(is_same_file & is_early & differs)
    return zip(order[:-1][found].tolist(), order[1:][found].tolist(), strict=True)


def _at(seconds: Seconds, places: Ints) -> Seconds:
    return Seconds(seconds.chunk[places], seconds.file[places], seconds.start[places], seconds.end[places])


def _rows(episodes: Episodes, at: int) -> str:
    return f"{int(episodes.start[at])} to {int(episodes.stop[at])}"


def _span(seconds: Seconds, at: int) -> str:
    return f"{seconds.start[at]:.3f} to {seconds.end[at]:.3f} s"


def _where(episodes: Episodes, at: int) -> str:
    return f"meta/episodes, episode {int(episodes.index[at])}"
