"""How to reach a store, beyond its URL. Contains no secrets: those stay in the environment."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit


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
        check_endpoint(self.endpoint)
        check_region(self.region)
        if self.requests_per_second is not None and self.requests_per_second <= 0:
            raise ValueError(f"requests_per_second must be positive, not {self.requests_per_second}")


def check_endpoint(endpoint: str, where: str = "endpoint") -> None:
    """Refuse an endpoint that is no URL: the client would end in a panic of many lines, or look for it in vain.

    Args:
        endpoint: empty if there is none.
        where: it comes from, for the message.

    Raises:
        ValueError: it has no scheme, no host or a wrong port, or it contains a secret, which the message does not show.
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
    """Whether a URL has a scheme, a host and a valid port or none."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
        )
    except ValueError:  # a port that is no number, an IPv6 address without its bracket
        return False
