"""The audio files of samples, one after the other. Knows nothing of what is done with them."""

from collections.abc import Callable, Sequence

from penstock.media.audio import EXTENSIONS
from penstock.media.errors import BadMedia
from penstock.media.span import Slice
from penstock.recipes.sample import Sample
from penstock.sources.errors import ContentError
from penstock.sources.tarsource import Place, TarSource

Read = Callable[[int, Slice, int], None]


def read_clips(
    source: TarSource, rows: Sequence[int], samples: Sequence[Sample], read: Read
) -> dict[int, ContentError]:
    """Call ``read`` for each row with the audio file and the draw of its sample. Returns what is wrong with some."""
    bad = {}
    for row, sample in zip(rows, samples, strict=True):
        if isinstance(sample.place, ContentError):
            bad[row] = sample.place
            continue
        try:
            _read_clip(source, row, sample, sample.place, read)
        except ContentError as error:
            bad[row] = error.bare()
    return bad


def _read_clip(source: TarSource, row: int, sample: Sample, place: Place, read: Read) -> None:
    try:
        for member in place.members:
            if member.ext in EXTENSIONS:
                blob = source.blob(place.shard)  # let go of before the next: a cache may have no room for more
                source.verify(blob, sample.row, member)
                return read(row, Slice(blob, member.offset, member.size), sample.word)
        there = ", ".join(member.ext for member in place.members)
        raise BadMedia(f"no audio: it has {there}, none of {', '.join(EXTENSIONS)}")
    except BadMedia as bad:
        raise bad_clip(source, sample, bad) from bad


def bad_clip(source: TarSource, sample: Sample, bad: BadMedia) -> ContentError:
    """What a feed is told of a file that is no good."""
    return ContentError(source.shard_path(sample.row), sample.id, str(bad))
