"""Arguments and options that several commands share: runs, ranks, states, steps, remote stores. Opens nothing."""

import re
from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file of the run.")]
World = Annotated[int | None, typer.Option(min=1, help="Number of ranks; 1 by default.")]
OnlyRank = Annotated[int | None, typer.Option("--rank", min=0, help="Only this rank; by default all ranks.")]
State = Annotated[Path | None, typer.Option(help="Saved state (JSON) with the batch sizes of the run so far.")]
StepRange = Annotated[str, typer.Option(help="One step, or A:B for steps A to B-1.")]
StepCount = Annotated[str, typer.Option(help="Number of steps from the start, or A:B for steps A to B-1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, without a header.")]

# The fields of ``StoreOptions``, in the same order, for commands that take URLs. A run has them in its config.
Endpoint = Annotated[str, typer.Option(help="Endpoint URL of the store, such as that of a MinIO server.")]
Region = Annotated[str, typer.Option(help="S3 region; by default from the environment or the AWS profile.")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Do not sign requests (public buckets).")]
RequestsPerSecond = Annotated[
    float | None, typer.Option(min=0.001, help="Maximum request rate, shared by all processes of this node.")
]


_MAX_STEPS = 1 << 40  # their samples are counted in 64 bits


def parse_steps(text: str) -> range:
    """Parse ``7`` (step 7), ``3:9`` (steps 3 to 8) or ``:9`` (steps 0 to 8).

    Raises:
        ValueError: If the text has another form, or the range is empty or beyond any run.
    """
    if re.fullmatch(r"\d+", text):
        return _range(text, int(text), int(text) + 1)
    return _parse_range(text, "7 for step 7")


def parse_step_count(text: str) -> range:
    """Parse ``7`` (the first 7 steps: 0 to 6), ``3:9`` (steps 3 to 8) or ``:9`` (steps 0 to 8).

    Raises:
        ValueError: If the text has another form, or the range is empty or beyond any run.
    """
    if re.fullmatch(r"\d+", text):
        if int(text) == 0:
            raise ValueError(f"--steps {text}: the number of steps must be at least 1")
        return _range(text, 0, int(text))
    return _parse_range(text, "200 for the first 200 steps")


def _parse_range(text: str, otherwise: str) -> range:
    match = re.fullmatch(r"(\d*):(\d+)", text)
    if not match:
        raise ValueError(f"--steps {text}: write {otherwise}, or 3:9 for steps 3 to 8")
    return _range(text, int(match[1] or 0), int(match[2]))


def _range(text: str, start: int, stop: int) -> range:
    if stop <= start:
        raise ValueError(f"--steps {text}: the range is empty; the end is exclusive and must be after the start")
    if stop > _MAX_STEPS:
        raise ValueError(f"--steps {text}: no run has more than {_MAX_STEPS:,} steps")
    return range(start, stop)
