"""Permanent errors in the bytes of an item, as opposed to I/O errors, which may be transient."""


class ContentError(ValueError):
    """The bytes were read and are wrong: reading them again would give the same result. A feed may use a substitute.

    Args:
        shard: File.
        item: Item in the file; None if the file itself is wrong.
        reason: Reason, for messages.

    Examples:
        >>> import penstock
        >>> error = penstock.ContentError("a.jsonl", "line-5", "this line holds no caption")
        >>> str(error)
        'a.jsonl:line-5: this line holds no caption'
    """

    def __init__(self, shard: str, item: str | None, reason: str):
        self.where = shard if item is None else f"{shard}:{item}"
        super().__init__(f"{self.where}: {reason}")
        self.shard = shard
        self.item = item
        self.reason = reason

    def bare(self) -> "ContentError":
        """Return a copy without the traceback, whose frames would keep their variables alive."""
        return ContentError(self.shard, self.item, self.reason)

    def __reduce__(self) -> tuple[type["ContentError"], tuple[str, str | None, str]]:
        return ContentError, (self.shard, self.item, self.reason)


def first_line(error: Exception) -> str:
    """Return the first line of the message of another library, to be part of a message of one sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
