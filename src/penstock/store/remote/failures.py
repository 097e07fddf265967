"""Classifies obstore's errors: temporary or not, and why. Pure; knows nothing of retries.

obstore has exception types for some causes and only a text for the rest. The text contains the request's URL, which may
be signed, so only the parts matched here are ever shown. It contains no headers, so Retry-After of S3 is not known.
"""

import re

from penstock.store.remote.redirects import NO_PROXY_HERE
from penstock.store.remote.retry import Failure, FailureKind

STATUS = re.compile(r"non-2xx status code: (\d+)")
CODE = re.compile(r"<Code>([^<]*)</Code>")
MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
HTTP_KIND = re.compile(r"kind: (Connect|Request|Timeout|Interrupted)\b")
OS_MESSAGE = re.compile(r'message: "([^"]*)"')
METADATA_SERVICE = re.compile(r"169\.254\.(169\.254|170\.2)|metadata\.google\.internal")

PASSING_STATUS = {408, 425, 429, 500, 502, 503, 504}
NO_CREDENTIALS = (
    "no credentials were found; set them in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY), or ask for anonymous access"
)


def explain(error: Exception) -> Failure:
    """Explain an error of obstore. Its classes are matched by name, as a process may have two copies of the module."""
    text = str(error)
    name = type(error).__name__
    if METADATA_SERVICE.search(text):
        # Such a service may fail for a moment; where there is none, it never answers (``unreached``).
        return Failure(FailureKind.PASSING, NO_CREDENTIALS, unreached=True)
    if f"{NO_PROXY_HERE}," in text:
        return Failure(
            FailureKind.FINAL, "the store redirects to another host, which gets no credentials; set the endpoint"
        )
    if "BareRedirect" in text or "Received redirect without LOCATION" in text:
        return Failure(
            FailureKind.FINAL, "the store redirects elsewhere: the bucket is in another region; set the region"
        )
    if found := STATUS.search(text):
        return explain_status(int(found[1]), text)
    if isinstance(error, FileNotFoundError):
        return Failure(FailureKind.MISSING, "no such object")
    if name == "PreconditionError":
        return Failure(FailureKind.CHANGED, "the object was replaced since its version was noted")
    if name == "NotSupportedError":
        return Failure(FailureKind.FINAL, "the server does not support range requests, or listing")
    if "MissingAccount" in text:
        return Failure(FailureKind.FINAL, "the account of the container is not known: set AZURE_STORAGE_ACCOUNT_NAME")
    if "dns error" in text:
        return Failure(FailureKind.PASSING, "the host name was not found (DNS)", unreached=True)
    if "certificate" in text:
        return Failure(FailureKind.FINAL, "the server's TLS certificate is not trusted")
    if found := HTTP_KIND.search(text):
        reason = OS_MESSAGE.search(text)
        words = "timed out" if found[1] == "Timeout" else reason[1].lower() if reason else "connection broken"
        return Failure(FailureKind.PASSING, words, unreached=found[1] == "Connect")
    if isinstance(error, ConnectionError | TimeoutError):
        return Failure(FailureKind.PASSING, str(error))
    return Failure(FailureKind.FINAL, f"{name}: {without_queries(text.splitlines()[0] if text else '')}")


def explain_status(status: int, text: str) -> Failure:
    """Explain an HTTP status, with the store's own code and message from the body."""
    code = found[1] if (found := CODE.search(text)) else ""
    said = f"HTTP {status}" + (f" {code}" if code else "")
    if found := MESSAGE.search(text):
        said += f" ({found[1].strip()})"
    if status in PASSING_STATUS or code in ("RequestTimeout", "SlowDown"):
        return Failure(FailureKind.PASSING, said)
    if code == "NoSuchBucket":
        return Failure(FailureKind.MISSING, f"the bucket does not exist: {said}")
    if status == 404:
        # The answer to a HEAD has no body and no code: the object or the bucket may be missing.
        return Failure(FailureKind.MISSING, f"no such object{'' if code else ' or bucket'}: {said}")
    if status in (401, 403) or code == "ExpiredToken":
        return Failure(FailureKind.DENIED, f"access denied: {said}; check the credentials and their permissions")
    if status == 412:
        return Failure(FailureKind.CHANGED, "the object was replaced since its version was noted")
    if status == 416:
        return Failure(FailureKind.CHANGED, "the object is shorter than was noted (HTTP 416)")
    return Failure(FailureKind.FINAL, said)


def without_queries(text: str) -> str:
    """Remove queries, which may contain signatures, and user names and passwords from URLs in ``text``."""
    return re.sub(r"//[^/\s@]*@", "//", re.sub(r"\?\S*", "", text))
