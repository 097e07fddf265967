"""PyAV decoders that are kept for the next batch, one or more per coding."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.media.video.idle import IdleDecoders
from penstock.readers.mp4.track import Coding

if TYPE_CHECKING:
    from penstock.media.video.decoder import Decoder


class Decoders(IdleDecoders[Coding, "Decoder"]):
    """Decoders by coding: a decoder serves every video with the same coding. See ``IdleDecoders``."""

    @contextmanager
    def lent(self) -> "Iterator[Lent]":
        """Lend decoders to one thread for the duration of the block. Then they are kept for others."""
        lent = Lent(self)
        try:
            yield lent
        except BaseException:
            lent.decoders.clear()  # one of them may be in the midst of a frame
            raise
        finally:
            self._give_back(lent)

    def take(self, coding: Coding) -> "Decoder":
        """Return an idle decoder, or a new one."""
        idle = self._take_idle(coding)
        if idle is not None:
            return idle
        from penstock.media.video.decoder import Decoder  # imports av

        return Decoder(coding)

    def _give_back(self, lent: "Lent") -> None:
        self._counts.add("hits", lent.reused)
        self._keep(lent.decoders.items())


class Lent:
    """Decoders of one thread, one per coding.

    Attributes:
        decoders: Decoders by coding.
        reused: Number of times that a decoder was used again.
    """

    def __init__(self, all_decoders: Decoders) -> None:
        self._all = all_decoders
        self.decoders: dict[Coding, Decoder] = {}
        self.reused = 0

    def get(self, coding: Coding) -> "Decoder":
        """Return the decoder of a coding."""
        found = self.decoders.get(coding)
        if found is None:
            found = self._all.take(coding)
            self.decoders[coding] = found
        else:
            self.reused += 1
        return found

    def drop(self, coding: Coding) -> None:
        """Discard a decoder that failed."""
        self.decoders.pop(coding, None)
