"""What is wrong with a record for good."""


class Rejected(ValueError):
    """A record that can not be used. Its message is a short phrase, by which rejected records are counted."""
