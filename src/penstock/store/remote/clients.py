"""Makes obstore's client for a location from credentials, region and endpoint. Sends nothing."""

import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from penstock.store.remote.awsprofile import AwsProfile, read_profile
from penstock.store.remote.options import StoreOptions, check_endpoint, check_region
from penstock.store.remote.redirects import stay_at_host
from penstock.store.remote.urls import Location

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig


def make_client(obstore: ModuleType, at: Location, options: StoreOptions) -> "ObjectStore":
    """Return a client for the location's bucket or host. obstore's own retries are off: ``Retrier`` does them."""
    # A large object may take long; only a silent connection is an error.
    connection: ClientConfig = {
        "connect_timeout": f"{max(1, round(min(10.0, options.timeout_seconds) * 1000))}ms",
        "read_timeout": f"{max(1, round(options.timeout_seconds * 1000))}ms",
        "timeout": "1h",
        "allow_http": True,
    }
    retry: RetryConfig = {"max_retries": 0}
    config = client_settings(at, options, os.environ)
    if at.scheme in ("http", "https"):
        url = f"{at.scheme}://{at.bucket}"
        client: ObjectStore = obstore.store.HTTPStore(url, client_options=connection, retry_config=retry)
    elif at.scheme == "gs":
        client = obstore.store.GCSStore(at.bucket, config=config, client_options=connection, retry_config=retry)
    elif at.scheme == "az":
        client = obstore.store.AzureStore(at.bucket, config=config, client_options=connection, retry_config=retry)
    else:
        if not options.anonymous:
            region = config.get("region", "us-east-1")  # obstore's own default
            connection |= stay_at_host(config.get("endpoint", ""), region, os.environ)
        client = obstore.store.S3Store(at.bucket, config=config, client_options=connection, retry_config=retry)
    return client


def client_settings(at: Location, options: StoreOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that obstore does not read from the environment by itself."""
    anonymous = {"skip_signature": "true"} if options.anonymous else {}
    if at.scheme == "gs":
        return anonymous | ({"base_url": options.endpoint} if options.endpoint else {})
    if at.scheme == "az":
        return anonymous | ({"endpoint": options.endpoint} if options.endpoint else {})
    return anonymous | s3_settings(at, options, environ)


def s3_settings(at: Location, options: StoreOptions, environ: Mapping[str, str]) -> dict[str, str]:
    in_environment = "AWS_ACCESS_KEY_ID" in environ
    profile = AwsProfile() if in_environment or options.anonymous else read_profile(environ)
    endpoint = options.endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    endpoint = endpoint or environ.get("AWS_ENDPOINT")  # obstore's own name for it
    region = options.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or profile.region
    if at.scheme == "r2":
        endpoint = options.endpoint or f"https://{at.account}.r2.cloudflarestorage.com"
        region = options.region or "auto"
    endpoint = endpoint or profile.endpoint
    check_endpoint(endpoint, "the endpoint of the environment or the AWS profile")
    check_region(region, "the region of the environment or the AWS profile")
    found = {
        "endpoint": endpoint,
        "region": region,
        "access_key_id": profile.access_key_id,
        "secret_access_key": profile.secret_access_key,
        "session_token": profile.session_token,
    }
    return {name: value for name, value in found.items() if value}
