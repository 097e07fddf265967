"""The error of all decoders. Knows what is wrong with the bytes; knows nothing of the item they belong to."""


class BadMedia(ValueError):
    """The bytes cannot be decoded, and trying again does not help. The message says why.

    Callers that know the shard and the item add them: ``raise ContentError(shard, item, str(bad)) from bad``.
    """
