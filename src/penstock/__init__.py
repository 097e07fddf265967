"""Penstock: a training run as a function from the step to the batch."""

__version__ = "0.1.0"
