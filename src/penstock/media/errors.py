"""The error of all decoders. Knows what is wrong with the bytes; knows nothing of their item."""

import re

_DETAILS = re.compile("[:;] ")


class BadMedia(ValueError):
    """The bytes cannot be decoded, and a retry would not help. The message says why.

    Callers that know the shard and the item add them: ``raise ContentError(shard, item, str(bad)) from bad``.

    Args:
        message: Reason, for people.
        kind: Short phrase by which bad media are counted, the same for many of them. By default the message up to its
            first colon or semicolon. A message that begins with a name or a size needs one.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind or _DETAILS.split(message)[0]
