"""How a command reaches remote stores: the options that all commands over URLs share. A run has them in its config.

They are those of ``StoreOptions``, in its order.
"""

from typing import Annotated

import typer

Endpoint = Annotated[str, typer.Option(help="The store's server, where it is not the cloud's own (MinIO, …).")]
Region = Annotated[str, typer.Option(help="S3's region, if the environment or profile does not name it.")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Sign nothing: a public bucket.")]
RequestsPerSecond = Annotated[
    float | None, typer.Option(min=0.001, help="At most so many, from all processes of this node.")
]
