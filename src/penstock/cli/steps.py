"""Ranges of steps as they are typed."""

import re


def parse_steps(text: str) -> range:
    """``7`` is step 7, ``3:9`` steps 3 to 8, ``:9`` steps 0 to 8."""
    match = re.fullmatch(r"(\d*)(:(\d+))?", text)
    if not match or not text:
        raise ValueError(f"--steps {text}: write one step as 7, or steps 3 to 8 as 3:9")
    first = int(match[1] or 0)
    steps = range(first, int(match[3]) if match[2] else first + 1)
    if not steps:
        raise ValueError(f"--steps {text}: holds no step; the end is exclusive and comes after the start")
    return steps
