"""Options that several commands share: ranks, states, steps, and how to reach remote stores. Opens nothing."""

import re
from pathlib import Path
from typing import Annotated

import typer

World = Annotated[int | None, typer.Option(min=1, help="Number of ranks; 1 by default.")]
State = Annotated[Path | None, typer.Option(help="A saved state (JSON), whose history of batch sizes is used.")]

# The fields of ``StoreOptions``, in the same order, for commands that take URLs. A run has them in its config.
Endpoint = Annotated[str, typer.Option(help="The store's endpoint URL, if not the cloud's own (MinIO, …).")]
Region = Annotated[str, typer.Option(help="The S3 region, if neither the environment nor the AWS profile sets it.")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Do not sign requests; for public buckets.")]
RequestsPerSecond = Annotated[
    float | None, typer.Option(min=0.001, help="Maximum request rate, shared by all processes of this node.")
]


def parse_steps(text: str) -> range:
    """Parse ``7`` (step 7), ``3:9`` (steps 3 to 8) or ``:9`` (steps 0 to 8).

    Raises:
        ValueError: another form, or a range without a step.
    """
    if re.fullmatch(r"\d+", text):
        return range(int(text), int(text) + 1)
    return _parse_range(text, "one step as 7")


def parse_step_count(text: str) -> range:
    """Parse ``7`` (the first 7 steps: 0 to 6), ``3:9`` (steps 3 to 8) or ``:9`` (steps 0 to 8).

    Raises:
        ValueError: another form, or a range without a step.
    """
    if re.fullmatch(r"\d+", text):
        if int(text) == 0:
            raise ValueError(f"--steps {text}: must be at least 1; it is a number of steps from the start")
        return range(int(text))
    return _parse_range(text, "a number of steps from the start as 200")


def _parse_range(text: str, otherwise: str) -> range:
    match = re.fullmatch(r"(\d*):(\d+)", text)
    if not match:
        raise ValueError(f"--steps {text}: write {otherwise}, or steps 3 to 8 as 3:9")
    steps = range(int(match[1] or 0), int(match[2]))
    if not steps:
        raise ValueError(f"--steps {text}: the range is empty; the end is exclusive and must be after the start")
    return steps
