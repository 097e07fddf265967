"""Ranges of steps, as typed on the command line."""

import re


def parse_steps(text: str) -> range:
    """Parse ``7`` (step 7), ``3:9`` (steps 3 to 8) or ``:9`` (steps 0 to 8).

    Raises:
        ValueError: another form, or a range without a step.
    """
    match = re.fullmatch(r"(\d*)(:(\d+))?", text)
    if not match or not text:
        raise ValueError(f"--steps {text}: write one step as 7, or steps 3 to 8 as 3:9")
    first = int(match[1] or 0)
    steps = range(first, int(match[3]) if match[2] else first + 1)
    if not steps:
        raise ValueError(f"--steps {text}: the range is empty; the end is exclusive and must be after the start")
    return steps
