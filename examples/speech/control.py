"""Orders to a trainer while it runs: a file in its run folder, or a signal.

    python examples/speech/control.py runs/demo lr=3e-4 log_every=5
    python examples/speech/control.py runs/demo 'mixture={weights: equal}'
    python examples/speech/control.py runs/demo pause=true        # pause=false goes on; checkpoint=true, stop=true
    kill -USR1 PID (checkpoint)   kill -USR2 PID (pause, go on)   kill -TERM PID (checkpoint and stop)

Knows what can be ordered; not what an order does.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

FILE = "control.yaml"


@dataclass(frozen=True, slots=True)
class Order:
    key: str
    value: Any


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false, not {value!r}")
    return value


def _positive(value: Any) -> float:
    number = float(value)  # YAML takes 1e-4 for a text
    if not 0 < number < float("inf"):
        raise ValueError(f"a number above 0, not {value!r}")
    return number


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"1 or more, not {value!r}")
    return value


def _mixture(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value.keys() <= {"weights", "temperature"}:
        raise ValueError(f"{{weights: …, temperature: …}}, not {value!r}")
    return value


CHECKS = {
    "checkpoint": _flag,
    "pause": _flag,
    "stop": _flag,
    "lr": _positive,
    "log_every": _count,
    "mixture": _mixture,
}


def parse_orders(content: Any) -> list[Order]:
    """The orders of a control file, all of them or a ValueError."""
    if not isinstance(content, Mapping):
        raise ValueError(f"orders are `key: value` lines, not {content!r}")
    orders = []
    for key, value in content.items():
        if key not in CHECKS:
            near = get_close_matches(str(key), CHECKS, n=1) or [", ".join(CHECKS)]
            raise ValueError(f"there is no order {key!r}; did you mean {near[0]}?")
        try:
            orders.append(Order(key, CHECKS[key](value)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key}: {error}") from None
    return orders


class Control:
    """What was ordered since the last look. Looking costs one system call."""

    def __init__(self, folder: Path) -> None:
        self._file, self._signalled = folder / FILE, list[signal.Signals]()
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
            signal.signal(number, lambda number, _: self._signalled.append(signal.Signals(number)))

    def take(self, paused: bool) -> list[Order]:
        orders = [self._meant(self._signalled.pop(0), paused) for _ in range(len(self._signalled))]
        taken = self._file.with_suffix(".taken")
        try:
            self._file.rename(taken)  # an order is taken whole, and once
        except FileNotFoundError:
            return orders
        try:
            return orders + parse_orders(yaml.safe_load(taken.read_text(encoding="utf-8")))
        except (ValueError, yaml.YAMLError) as error:
            return [*orders, Order("refused", " ".join(str(error).split()))]
        finally:
            taken.unlink()

    @staticmethod
    def _meant(number: signal.Signals, paused: bool) -> Order:
        if number == signal.SIGUSR2:
            return Order("pause", not paused)
        return Order("checkpoint" if number == signal.SIGUSR1 else "stop", True)


def give(folder: Path, words: list[str]) -> None:
    """Leave ``key=value`` orders for the trainer of a run folder. They appear there at once or not at all."""
    content = {key: yaml.safe_load(value) for key, _, value in (word.partition("=") for word in words)}
    parse_orders(content)
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".order", encoding="utf-8") as file:
        yaml.safe_dump(content, file)
        file.flush()
        os.link(file.name, folder / FILE)  # unlike a rename, fails if one is there


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        give(Path(sys.argv[1]), sys.argv[2:])
    except FileExistsError:
        sys.exit(f"{Path(sys.argv[1]) / FILE} is still there: the trainer has not taken the last order yet")
    except (ValueError, OSError, yaml.YAMLError) as error:
        sys.exit(f"not ordered: {error}")
