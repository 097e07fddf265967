"""The audio files of samples, one after the other. Knows nothing of what is done with them."""

from collections.abc import Callable, Sequence

from penstock.media.audio import EXTENSIONS
from penstock.media.errors import BadMedia
from penstock.media.span import Slice
from penstock.readers.errors import ContentError
from penstock.readers.tar.reader import TarSource
from penstock.recipes.sample import Sample

Read = Callable[[int, Slice, int], None]


def read_clips(
    source: TarSource, rows: Sequence[int], samples: Sequence[Sample], read: Read
) -> dict[int, ContentError]:
    """Call ``read`` for each row with the audio file and the draw of its sample. Returns what is wrong with some."""
    bad = {}
    for row, sample in zip(rows, samples, strict=True):
        try:
            read(row, _clip(source, sample), sample.word)  # held by nobody then: a cache may have no room for more
        except ContentError as error:
            bad[row] = error.bare()
        except BadMedia as error:
            bad[row] = bad_clip(source, sample, error)
    return bad


def _clip(source: TarSource, sample: Sample) -> Slice:
    place = sample.place
    if isinstance(place, ContentError):
        raise place.bare()
    if not place.members:
        raise BadMedia(f"no audio: it has {', '.join(source.extensions(sample.row))}, none of {', '.join(EXTENSIONS)}")
    member, blob = place.members[0], source.blob(place.shard)
    source.verify(blob, sample.row, member)
    return Slice(blob, member.offset, member.size)


def bad_clip(source: TarSource, sample: Sample, bad: BadMedia) -> ContentError:
    """What a feed is told of a file that is no good."""
    return ContentError(source.shard_path(sample.row), sample.id, str(bad))
