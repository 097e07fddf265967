"""Keys, region and endpoint from the AWS profile files. Knows nothing of keys in the environment, which come first.

obstore reads no profile files, and its provider for them needs boto3, of which botocore alone is a wheel of 16 MB.
"""

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

UNSUPPORTED_KEYS = ("credential_process", "sso_session", "sso_start_url", "role_arn")


@dataclass(frozen=True, slots=True)
class AwsProfile:
    """The values of a profile; empty where it has none. Secrets are not in its ``repr``."""

    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    region: str = ""
    endpoint: str = ""


def read_profile(environ: Mapping[str, str]) -> AwsProfile:
    """Read the profile that AWS_PROFILE names, or the default one. Without files it is empty.

    Raises:
        ValueError: If there is no such profile, or it gets its keys in a way that is not supported.
    """
    name = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    home = Path(environ.get("HOME") or os.path.expanduser("~")) / ".aws"
    credentials = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials").expanduser()
    config = Path(environ.get("AWS_CONFIG_FILE") or home / "config").expanduser()
    # The credentials file names a profile plainly, the config file with a word before it; credentials win.
    found = {
        **read_section(config, name if name == "default" else f"profile {name}"),
        **read_section(credentials, name),
    }
    if not found and name != "default":
        raise ValueError(f"AWS profile {name!r} (from AWS_PROFILE) is neither in {credentials} nor in {config}")
    if "aws_access_key_id" not in found and (other := [key for key in UNSUPPORTED_KEYS if key in found]):
        raise ValueError(
            f"AWS profile {name!r} gets its keys by {other[0]}, which is not supported; put keys into the environment, "
            f"for instance with: eval $(aws configure export-credentials --profile {name} --format env)"
        )
    return AwsProfile(
        access_key_id=found.get("aws_access_key_id", ""),
        secret_access_key=found.get("aws_secret_access_key", ""),
        session_token=found.get("aws_session_token", ""),
        region=found.get("region", ""),
        endpoint=found.get("endpoint_url", ""),
    )


def read_section(path: Path, name: str) -> dict[str, str]:
    # No interpolation: a secret may hold a percent sign. A parser's error would quote the line, and so the secret.
    parser = configparser.RawConfigParser(default_section="")
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", None)
        problem = f"{path}{f', line {line}' if line else ''}: not a readable AWS profile file"
    else:
        return dict(parser.items(name)) if parser.has_section(name) else {}
    raise ValueError(problem)
