"""Page-locked memory for the tensors of a batch, from which a GPU can copy while it computes. Knows no loader."""

import warnings
from typing import Any


def can_pin() -> bool:
    """Return whether there is an accelerator to pin memory for. Warns if there is none."""
    import torch

    if torch.accelerator.is_available():
        return True
    warnings.warn("pin_memory=True does nothing here: torch finds no accelerator", stacklevel=4)
    return False


def pinned(value: Any) -> Any:
    """Return a batch, or a value of it, with all tensors in page-locked memory. Other values are unchanged."""
    if isinstance(value, dict):
        return {key: pinned(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(pinned, value))
    return value.pin_memory() if hasattr(value, "pin_memory") else value
