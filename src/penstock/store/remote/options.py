"""How to reach a store, beyond its URL. Contains no secrets: those stay in the environment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of a remote store.

    Attributes:
        endpoint: the server's URL if it is not the cloud's own (MinIO, SeaweedFS, an emulator).
        region: the S3 region; by default from the environment or the AWS profile.
        anonymous: do not sign requests and look for no credentials (public buckets).
        requests_per_second: limit for all processes of this node together; None is no limit.
        retry_seconds: how long failures that can pass (429, 5xx, resets, timeouts) are retried. Three minutes outlast
            usual outages of a store and are shorter than the life of a signature.
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
            raise ValueError(
                "an endpoint must not contain a user name, password or query: put secrets into the environment"
            )
        if self.requests_per_second is not None and self.requests_per_second <= 0:
            raise ValueError(f"requests_per_second must be positive, not {self.requests_per_second}")
