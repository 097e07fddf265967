"""``penstock index``."""


def index() -> None: ...
