"""Which messages of a conversation are trained, and with which weight. Knows no template."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from penstock.text.errors import Rejected

TrainOn = Literal["assistant", "last", "all"]
Message = Mapping[str, Any]
OWN_KEYS = frozenset({"train", "weight", "loss_weight"})  # of a message; not for a template
MAX_WEIGHT = 1e30  # weights become float32, in which 1e39 would be infinite


def message_weights(messages: Sequence[Message], train_on: TrainOn) -> list[float]:
    """Return the loss weight of every message; 0 means that it is not trained.

    ``train_on`` chooses the messages: those of the assistant, the last one of the assistant, or all. A message's own
    ``train`` overrules that choice. Its ``loss_weight`` (or ``weight``, another name for it) multiplies the loss of a
    message that was chosen. A key whose value is None counts as absent, because tables fill missing keys with None.

    Raises:
        Rejected: If a weight is not a number, negative or too large, or ``train`` is not a boolean.
    """
    assistant = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    chosen = set(range(len(messages)) if train_on == "all" else assistant[-1:] if train_on == "last" else assistant)
    return [_weight(message, index in chosen) for index, message in enumerate(messages)]


def _weight(message: Message, chosen: bool) -> float:
    train = message.get("train")
    if train not in (None, True, False):  # the text "false" is true for Python
        raise Rejected("message field 'train' must be a boolean")
    if not (chosen if train is None else train):
        return 0.0
    given = message.get("loss_weight")
    if given is None:
        given = message.get("weight")
    if given is None:
        return 1.0
    try:
        weight = float(given)
    except (TypeError, ValueError, OverflowError):
        raise Rejected("the loss weight of a message is not a number") from None
    if not 0 <= weight <= MAX_WEIGHT:  # also false for what is not a number
        raise Rejected("the loss weight of a message is negative, not finite or above 1e30")
    return weight
