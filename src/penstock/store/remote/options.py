"""Options of remote stores. Contains no secrets: those stay in the environment."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of a remote store.

    Attributes:
        endpoint: URL of the server if it is not the cloud's own (MinIO, SeaweedFS, an emulator).
        region: S3 region; by default from the environment or the AWS profile.
        anonymous: Whether to send unsigned requests without looking for credentials (public buckets).
        requests_per_second: Limit for all processes of this node together; None for no limit.
        retry_seconds: Time during which temporary failures (429, 5xx, resets, timeouts) are retried. Three minutes
            outlast usual outages of a store and are shorter than the life of a signature.
        timeout_seconds: Time without data after which a request has failed.

    Examples:
        >>> import penstock
        >>> options = penstock.StoreOptions(region="eu-central-1", requests_per_second=100)
        >>> cache = penstock.ShardCache("cache", max_size_gb=1, options=options)
    """

    endpoint: str = ""
    region: str = ""
    anonymous: bool = False
    requests_per_second: float | None = None
    retry_seconds: float = 180.0
    timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        check_endpoint(self.endpoint)
        check_region(self.region)
        if self.requests_per_second is not None and self.requests_per_second <= 0:
            raise ValueError(f"requests_per_second must be positive, not {self.requests_per_second}")


def check_endpoint(endpoint: str, where: str = "endpoint") -> None:
    """Raise an error for an endpoint that is not a URL: the client would panic, or search for the host in vain.

    Args:
        endpoint: Endpoint; empty for none.
        where: Origin of the value, for the message.

    Raises:
        ValueError: If it has no scheme, no host or a wrong port, or contains a secret, which the message does not show.
    """
    if "@" in endpoint or "?" in endpoint:
        raise ValueError(
            f"{where}: it must not contain a user name, password or query: put secrets into the environment"
        )
    if endpoint and not is_web_address(endpoint):
        raise ValueError(f"{where}: {endpoint!r} is not a web address; write it as https://host or http://host:9000")


def check_region(region: str, where: str = "region") -> None:
    """Raise ValueError for a region that cannot be part of a host name."""
    if not re.fullmatch(r"[A-Za-z0-9-]*", region):
        raise ValueError(f"{where}: {region!r} is not a region; write it as us-east-1")


def is_web_address(url: str) -> bool:
    """Return whether a URL has a scheme, a host, and a valid port or none."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
        )
    except ValueError:  # a port that is no number, an IPv6 address without its bracket
        return False
