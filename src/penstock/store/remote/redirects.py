"""Keeps S3 requests at their own host: a redirect to another one would carry the session token there.

The HTTP client follows redirects and has no option against it. It removes the signature from a redirected request, but
not ``x-amz-security-token``. So every other host is behind a proxy that does not exist: nothing is sent to it.
"""

import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from obstore.store import ClientConfig

NO_PROXY_HERE = "127.0.0.1:0"  # nothing can listen at port 0; errors show it
CREDENTIAL_HOSTS = ("169.254.0.0/16", "fd00:ec2::/32", "sts.amazonaws.com")  # where keys may come from
CREDENTIAL_URLS = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ENDPOINT_URL_STS")


def stay_at_host(endpoint: str, region: str, environ: Mapping[str, str]) -> "ClientConfig":
    """Return options of a client that reaches its endpoint and the services that give keys, and no other host.

    Empty where the environment sets a proxy, which the client then needs, or S3 Express, whose hosts are many.
    """
    if urllib.request.getproxies_environment().keys() - {"no"} or {"AWS_PROXY_URL", "AWS_S3_EXPRESS"} & environ.keys():
        return {}
    urls = [endpoint or f"https://s3.{region}.amazonaws.com", *(environ.get(name, "") for name in CREDENTIAL_URLS)]
    hosts = [host for url in urls if (host := urlsplit(url).hostname)]
    allowed = (*hosts, *CREDENTIAL_HOSTS, f"sts.{region}.amazonaws.com")
    return {"proxy_url": f"http://{NO_PROXY_HERE}", "proxy_excludes": ",".join(allowed)}
