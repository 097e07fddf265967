"""Orders to a running trainer: what is understood, and that each is taken once."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from control import FILE, Control, Order, give, parse_orders  # isort: skip


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield Control(tmp_path)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_orders_are_taken_once(control: Control, tmp_path: Path) -> None:
    give(tmp_path, ["lr=1e-4", "mixture={weights: equal, temperature: 0.5}", "pause=true"])
    mixture = Order("mixture", {"weights": "equal", "temperature": 0.5})
    assert control.take(paused=False) == [Order("lr", 1e-4), mixture, Order("pause", True)]
    assert control.take(paused=False) == []
    assert list(tmp_path.iterdir()) == []


def test_an_order_is_not_lost_under_the_next(control: Control, tmp_path: Path) -> None:
    give(tmp_path, ["lr=1"])
    with pytest.raises(FileExistsError):
        give(tmp_path, ["stop=true"])
    assert control.take(paused=False) == [Order("lr", 1.0)]


def test_signals_checkpoint_pause_go_on_and_stop(control: Control) -> None:
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        os.kill(os.getpid(), number)
    assert set(control.take(paused=False)) == {Order("checkpoint", True), Order("pause", True), Order("stop", True)}
    os.kill(os.getpid(), signal.SIGUSR2)
    assert control.take(paused=True) == [Order("pause", False)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lrr: 1", "there is no order 'lrr'; did you mean lr?"),
        ("lr: -1", "lr: a number above 0, not -1"),
        ("lr: [1]", "lr: "),
        ("log_every: 0", "log_every: 1 or more, not 0"),
        ("pause: perhaps", "pause: true or false, not 'perhaps'"),
        ("mixture: equal", "mixture: {weights: …, temperature: …}, not 'equal'"),
        ("just words", "orders are `key: value` lines"),
        ("a: [", "while parsing"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_with_its_reason(
    control: Control, tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / FILE).write_text(text)
    (refused,) = control.take(paused=False)
    assert refused.key == "refused" and refused.value.startswith(why)


def test_a_file_with_one_wrong_order_is_refused_whole() -> None:
    with pytest.raises(ValueError, match="stopp"):
        parse_orders({"lr": 0.1, "stopp": True})
