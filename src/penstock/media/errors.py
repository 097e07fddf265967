"""The one error of this room. It knows what is wrong with the bytes, not whose they are."""


class BadMedia(ValueError):
    """The bytes are no good and never will be; a sentence says why.

    Who knows the shard and the item says so: ``raise ContentError(shard, item, str(bad)) from bad``.
    """
