"""What two texts begin with. Knows no template."""


def common_length(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
