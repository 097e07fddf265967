"""Which message each ``{% generation %}`` block of a text belongs to."""

from collections.abc import Sequence
from contextlib import suppress

from penstock.text.trained.layouts import TurnSpan
from penstock.text.trained.marks import Spot
from penstock.text.trained.spots import Render, SpansNotFound, locate
from penstock.text.trained.weights import Message


def block_turns(
    messages: Sequence[Message],
    render: Render,
    text: str,
    blocks: Sequence[tuple[int, int]],
    weights: Sequence[float],
) -> list[TurnSpan]:
    """Return the blocks of the assistant's trained messages.

    Blocks are assigned to messages only where that matters: if all of the assistant's messages are trained with one
    weight, each block counts as the first of them.

    Args:
        messages: Conversation.
        render: Function that renders messages.
        text: Conversation as text.
        blocks: Start and end of each block in the text.
        weights: Loss weight of each message.

    Raises:
        SpansNotFound: If it is not clear which message a block belongs to, or a trained message has no block.
        Rejected: If the template leaves out tool calls of a trained message.
    """
    assistant = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    wanted = [number for number, weight in enumerate(weights) if weight]
    if wanted == assistant and len({weights[number] for number in wanted}) == 1 and blocks:
        calling = [number for number in wanted if messages[number].get("tool_calls")]
        if calling:
            with suppress(SpansNotFound):  # the blocks show what is trained; only calls may be left out of them
                locate(messages, render, text, calling)
        return [TurnSpan(assistant[0], start, end) for start, end in blocks]
    spots = locate(messages, render, text, wanted).spots
    speakers = _speakers(spots, assistant, blocks) if assistant else []
    turns = [TurnSpan(speaker, *block) for speaker, block in zip(speakers, blocks, strict=False)]
    for number in wanted:
        if number in assistant and all(turn.message != number for turn in turns):
            raise SpansNotFound("its generation blocks hold nothing of a message", f"message {number + 1}")
    return [turn for turn in turns if turn.message in wanted]


def _speakers(spots: list[Spot], assistant: list[int], blocks: Sequence[tuple[int, int]]) -> list[int]:
    """Return the message of the assistant to which each block belongs.

    Raises:
        SpansNotFound: If it is not clear, because marks show only some of the messages.
    """
    found = {spot.message: spot for spot in spots}
    if found.keys() >= set(assistant):
        return [_speaker(spots, assistant, end) for _, end in blocks]
    known = [(found[number], *block) for number, block in zip(assistant, blocks, strict=False) if number in found]
    touching = all(spot.start <= end and start <= spot.end for spot, start, end in known)
    if len(blocks) != len(assistant) or not touching:
        raise SpansNotFound("its generation blocks do not show which message each belongs to")
    return assistant


def _speaker(spots: list[Spot], assistant: list[int], end: int) -> int:
    """Return the assistant's message of the block that ends here, which may stand beside its content."""
    begun = [spot for spot in spots if spot.start < end]
    later = [spot for spot in spots if spot.start >= end]
    nearest = [spot.message for spot in (*begun[-1:], *later, *begun[::-1]) if spot.message in assistant]
    return nearest[0] if nearest else assistant[0]
