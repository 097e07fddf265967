"""How to reach a store, as far as its URL does not say it. Holds no secret: those stay in the environment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Attributes:

    endpoint: the server's URL where it is not the cloud's own (MinIO, SeaweedFS, an emulator).
    region: S3's; without it the environment or the AWS profile decides.
    anonymous: sign nothing and look for no credentials (public buckets).
    requests_per_second: at most so many from all processes of this node together; None is no limit.
    retry_seconds: how long what can pass (429, 5xx, resets, timeouts) is tried again. Three minutes outlast a store's
        usual hiccups and stay under the life of a signature.
    timeout_seconds: how long a connection may be silent before the request counts as failed.
    """

    endpoint: str = ""
    region: str = ""
    anonymous: bool = False
    requests_per_second: float | None = None
    retry_seconds: float = 180.0
    timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        if "@" in self.endpoint or "?" in self.endpoint:
            raise ValueError("an endpoint must hold no user name, password or query: give secrets in the environment")
        if self.requests_per_second is not None and self.requests_per_second <= 0:
            raise ValueError(f"requests_per_second must be positive, not {self.requests_per_second}")
