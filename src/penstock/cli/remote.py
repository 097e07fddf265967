"""Options to reach remote stores, shared by all commands that take URLs. A run has them in its config.

They are the fields of ``StoreOptions``, in the same order.
"""

from typing import Annotated

import typer

Endpoint = Annotated[str, typer.Option(help="The store's endpoint URL, if not the cloud's own (MinIO, …).")]
Region = Annotated[str, typer.Option(help="The S3 region, if neither the environment nor the AWS profile sets it.")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Do not sign requests; for public buckets.")]
RequestsPerSecond = Annotated[
    float | None, typer.Option(min=0.001, help="Maximum request rate, shared by all processes of this node.")
]
