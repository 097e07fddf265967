"""Decodes the frames of a whole batch with several threads. Each run of packets is decoded once."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.media.video.decoders import Decoders, Lent
from penstock.media.video.sinks import Rgb, Sink
from penstock.plan.draws import Ints
from penstock.readers.mp4.clip import Clip, Piece, pieces
from penstock.readers.ranges import Ranges

if TYPE_CHECKING:
    from penstock.media.video.decoder import Decoder

Places = NDArray[Any]


class Wanted(NamedTuple):
    """Frames that one sample needs of a clip.

    Attributes:
        sample: Index of the sample in the batch.
        clip: Part of a video.
        numbers: Numbers of the frames.
        ranges: Reader of the video's bytes.
        sink: Writer of decoded frames.
        out: Array to fill, shape (frames, height, width, channels).
        file: Location of the video, for messages.
    """

    sample: int
    clip: Clip
    numbers: Ints
    ranges: Ranges
    sink: Sink
    out: Places
    file: str


class _Job(NamedTuple):
    """A run of packets, and the destinations of each frame by its number: (index of the sample, array)."""

    clip: Clip
    ranges: Ranges
    sink: Sink
    piece: Piece
    file: str
    targets: dict[int, list[tuple[int, Places]]]


def decode(wanted: Sequence[Wanted], decoders: Decoders, threads: int, executor: Executor) -> dict[int, str]:
    """Decode the frames of a batch.

    Args:
        wanted: Frames that the samples need.
        decoders: Pool to borrow decoders from.
        threads: Number of shares to decode in parallel; the caller decodes one of them.
        executor: Executor of the other shares.

    Returns:
        Errors by index of the sample, for samples with a frame that cannot be decoded.
    """
    jobs = _jobs(wanted)
    # The longest first, each to the share with the least work so far.
    jobs.sort(key=lambda job: job.piece.first - job.piece.last)
    shares: list[list[_Job]] = [[] for _ in range(min(threads, len(jobs)))]
    work = [0] * len(shares)
    for job in jobs:
        least = work.index(min(work))
        shares[least].append(job)
        work[least] += job.piece.last - job.piece.first + 1
    others = [executor.submit(_decode_all, share, decoders) for share in shares[1:]]
    bad = _decode_all(shares[0], decoders) if shares else {}
    for other in others:
        bad |= other.result()
    return bad


def _jobs(wanted: Sequence[Wanted]) -> list[_Job]:
    by_clip: defaultdict[Clip, list[Wanted]] = defaultdict(list)
    for each in wanted:
        by_clip[each.clip].append(each)
    jobs = []
    for clip, own in by_clip.items():
        targets: defaultdict[int, list[tuple[int, Places]]] = defaultdict(list)
        for each in own:
            for number, place in zip(each.numbers.tolist(), each.out, strict=True):
                targets[number].append((each.sample, place))
        for piece, frames in pieces(clip.starts, targets):
            chosen = {frame: targets[frame] for frame in frames}
            jobs.append(_Job(clip, own[0].ranges, own[0].sink, piece, own[0].file, chosen))
    return jobs


def _decode_all(jobs: Sequence[_Job], decoders: Decoders) -> dict[int, str]:
    bad: dict[int, str] = {}
    with decoders.lent() as lent:
        for job in jobs:
            try:
                _decode(job, lent.get(job.clip.coding))
            except BadMedia:
                lent.drop(job.clip.coding)
                bad |= _decode_singly(job, lent)
    return bad


def _decode_singly(job: _Job, lent: Lent) -> dict[int, str]:
    """Decode each frame of a job from its own key frame. Returns errors by index of the sample.

    A frame is bad if any frame from its key frame up to itself is, in decoding order. That must not depend on what else
    the batch needs, which differs with ranks and workers.
    """
    bad: dict[int, str] = {}
    for frame, targets in job.targets.items():
        [(piece, _)] = pieces(job.clip.starts, [frame])
        try:
            _decode(job._replace(piece=piece, targets={frame: targets}), lent.get(job.clip.coding))
        except BadMedia as error:
            lent.drop(job.clip.coding)
            bad |= {index: f"{job.file}: {error}" for index, _ in targets}
    return bad


def _decode(job: _Job, decoder: "Decoder") -> None:
    """Decode a run of packets and write the wanted frames.

    Raises:
        BadMedia: If a frame of the run is damaged or missing: later frames may then be wrong.
    """
    due = dict.fromkeys(job.targets, False) | _due(job.clip, job.piece)
    for number, frame in decoder.frames(read_verified(job.clip, job.ranges, job.piece), job.piece.first):
        if number not in due:
            continue
        fault = frame.fault(is_start=due.pop(number))
        if fault:
            raise BadMedia(fault)
        if number in job.targets:
            (_, place), *others = job.targets[number]
            job.sink.write(frame, place)
            for _, other in others:
                other[:] = place
    if due:
        raise BadMedia(f"the decoder returned no frame for packet {min(due)} of the episode")


def _due(clip: Clip, piece: Piece) -> dict[int, bool]:
    """Return the frames that a decoder returns for a piece, and whether decoding may begin with each.

    Frames that need an earlier key frame than that of the piece are left out.
    """
    starts = clip.starts[piece.first : piece.last + 1].tolist()
    return {number: start == number for number, start in enumerate(starts, piece.first) if start >= piece.first}


def read_verified(clip: Clip, ranges: Ranges, piece: Piece) -> list[memoryview]:
    """Return the encoded frames of a piece, verified.

    Raises:
        BadMedia: If the bytes differ from the indexed ones.
    """
    packets = clip.read(ranges, piece)
    number = clip.changed(piece.first, packets)
    if number is not None:
        start, end = clip.byte_range(Piece(number, number))
        raise BadMedia(
            f"a frame, bytes {start} to {end} of the file, is damaged or is not what `penstock index` read; restore "
            "the file, or index it with --anew if it was replaced"
        )
    return packets


def damaged_frames(clip: Clip, ranges: Ranges, decoders: Decoders) -> list[int]:
    """Decode all frames of a clip. Returns the numbers of those that the decoder finds damaged."""
    damaged: set[int] = set()
    starts, from_end = np.unique(clip.starts[::-1], return_index=True)
    lasts = len(clip.starts) - 1 - from_end
    with decoders.lent() as lent:
        for piece in map(Piece, starts[starts >= 0].tolist(), lasts[starts >= 0].tolist()):
            due = _due(clip, piece)
            try:
                for number, frame in lent.get(clip.coding).frames(clip.read(ranges, piece), piece.first):
                    if number in due and not frame.fault(is_start=due[number]):
                        del due[number]
            except BadMedia:
                lent.drop(clip.coding)
            if due:
                lent.drop(clip.coding)
            # The next key frame and what follows it may be in the piece, too: they are decoded by themselves.
            left = sorted(number for number in due if clip.starts[number] == piece.first)
            damaged.update(_from_first_bad(clip, ranges, left, lent))
    return sorted(damaged)


def _from_first_bad(clip: Clip, ranges: Ranges, numbers: Sequence[int], lent: Lent) -> Sequence[int]:
    """Return the frames from the first one on that cannot be decoded alone. An error also hides good frames before."""
    for place, number in enumerate(numbers):
        try:
            piece = Piece(int(clip.starts[number]), number)
            _decode(_Job(clip, ranges, Rgb(), piece, "", {}), lent.get(clip.coding))
        except BadMedia:
            lent.drop(clip.coding)
            return numbers[place:]
    return []
