"""Which messages are trained, and with which weight."""

from typing import Any

import pytest

from penstock.text.errors import Rejected
from penstock.text.trained import message_weights
from tests.text.conversations import assistant, system, user

PLAIN = [system("s"), user("a"), assistant("b"), user("c"), assistant("d")]


@pytest.mark.parametrize(
    ("train_on", "expected"), [("assistant", [0, 0, 1, 0, 1]), ("last", [0, 0, 0, 0, 1]), ("all", [1, 1, 1, 1, 1])]
)
def test_train_on_chooses_the_messages(train_on: Any, expected: list[int]) -> None:
    assert message_weights(PLAIN, train_on) == expected


def test_train_overrules_the_choice_and_a_weight_does_not() -> None:
    messages = [user("a", train=True), user("b", loss_weight=1.0), assistant("c", train=False), assistant("d")]
    assert message_weights(messages, "assistant") == [1, 0, 0, 1]
    assert message_weights([assistant("a", train=True), assistant("b", train=None)], "last") == [1, 1]


def test_weight_and_loss_weight_are_two_names_for_one_thing() -> None:
    messages = [assistant("a", weight=0.5), assistant("b", loss_weight=0.25), assistant("c", weight=1, loss_weight=0.0)]
    assert message_weights([*messages, assistant("d", weight=None)], "assistant") == [0.5, 0.25, 0.0, 1.0]


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), 1e39, 10**400, "much", [1]])
def test_an_impossible_weight_rejects_the_record(weight: Any) -> None:
    with pytest.raises(Rejected, match="the loss weight of a message is"):
        message_weights([assistant("a", weight=weight)], "assistant")


@pytest.mark.parametrize("train", ["false", "true", "", 2, [True]])
def test_a_train_that_is_neither_true_nor_false_rejects_the_record(train: Any) -> None:
    with pytest.raises(Rejected, match="must be a boolean"):
        message_weights([assistant("a", train=train)], "assistant")
    assert message_weights([assistant("a", train=0), user("b", train=1)], "assistant") == [0, 1]
