"""What two texts begin with. Knows no template."""

import re

# A text in pieces: a tag, a word in brackets, a word, any other character.
PIECE = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]|\w+|\s|.")


def common_length(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def common_pieces(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning, without a part of a tag or word."""
    at = 0
    for first, second in zip(PIECE.finditer(one), PIECE.finditer(other), strict=False):
        if first[0] != second[0]:
            break
        at = first.end()
    return at
