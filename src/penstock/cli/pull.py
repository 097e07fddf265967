"""``penstock pull``: copies all objects under a URL into a folder."""

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from penstock.cli.console import Terminal
from penstock.cli.options import Anonymous, Endpoint, Region, RequestsPerSecond
from penstock.cli.progress import Progress
from penstock.store.pull import PullProgress
from penstock.store.pull import pull as pull_all
from penstock.store.remote.options import StoreOptions


def pull(
    url: Annotated[str, typer.Argument(help="Prefix of a bucket, such as s3://bucket/evaluation, or a folder.")],
    folder: Annotated[Path, typer.Argument(help="Output folder; created if it does not exist.")],
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Copy all objects under a URL into a folder. Run it again to resume an interrupted pull."""
    with Progress("pulling", in_bytes=True) as shown:

        def progress(now: PullProgress) -> None:
            shown.update(now.bytes_done, now.bytes, f"{now.files_done:,} of {now.files:,} files")

        try:
            done = pull_all(url, folder, progress, StoreOptions(endpoint, region, anonymous, requests_per_second))
        except RuntimeError as error:  # another pull into the folder is running
            raise ValueError(str(error)) from None
    unverified = f"; {done.unverified:,} not verified: the store has no checksums for them" if done.unverified else ""
    Terminal().print(
        f"{folder}: {done.files:,} file{'' if done.files == 1 else 's'}, {decimal(done.bytes)}{unverified}",
        soft_wrap=True,
    )
