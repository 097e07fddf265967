"""Generators that are seeded for a block, and restored after it."""

import random

import numpy as np
import pytest
import torch

from penstock.compat.randomness import seeded


def draw() -> tuple[float, float, float]:
    return float(torch.rand(())), float(np.random.rand()), random.random()


def test_the_seed_decides_what_all_generators_draw() -> None:
    with seeded(2**64 - 1):
        first = draw()
    draw()
    with seeded(2**64 - 1):
        assert draw() == first
    with seeded(2**64 - 2):
        other = draw()
    assert all(one != two for one, two in zip(first, other, strict=True))


def test_generators_go_on_as_if_nothing_had_been_drawn() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    expected = [draw(), draw()]
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    first = draw()
    with pytest.raises(KeyError), seeded(3):
        draw()
        raise KeyError
    assert [first, draw()] == expected
