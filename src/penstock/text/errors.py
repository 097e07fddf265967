"""The error of a record that can never be used."""


class Rejected(ValueError):
    """A record that cannot be used. The message is a short phrase; the index counts records by it."""
