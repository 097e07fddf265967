"""Which package a call comes from. Some trainers lose data by calls that others make rightly; these are refused."""

from types import FrameType

_LIGHTNING = ("lightning.", "lightning_fabric.", "pytorch_lightning.")


def is_lightning(frame: FrameType) -> bool:
    """Return whether the code of a frame belongs to Lightning."""
    return module_of(frame).startswith(_LIGHTNING)


def module_of(frame: FrameType) -> str:
    """Return the name of the module that the code of a frame belongs to."""
    return str(frame.f_globals.get("__name__"))
