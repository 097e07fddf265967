"""What can be wrong with an item's bytes for good, as opposed to an I/O error, which may pass."""


class ContentError(ValueError):
    """The bytes are there and are wrong: reading them again gives the same. A feed may take a substitute."""

    def __init__(self, shard: str, item: str | None, reason: str):
        self.where = shard if item is None else f"{shard}:{item}"
        super().__init__(f"{self.where}: {reason}")
        self.shard = shard
        self.item = item
        self.reason = reason

    def bare(self) -> "ContentError":
        """The same without the frames that it came through: who keeps it for a while does not keep what they hold."""
        return ContentError(self.shard, self.item, self.reason)

    def __reduce__(self) -> tuple[type["ContentError"], tuple[str, str | None, str]]:
        return ContentError, (self.shard, self.item, self.reason)
