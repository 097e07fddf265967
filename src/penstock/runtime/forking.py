"""What must begin afresh in a forked child: locks that a thread of the parent may hold, and what they guard."""

import os
import weakref
from typing import Protocol


class Resettable(Protocol):
    def reset_after_fork(self) -> None:
        """Runs in the child, which has none of its parent's threads."""
        ...


_all: "list[weakref.ref[Resettable]]" = []


def reset_in_children(thing: Resettable) -> None:
    """For as long as it lives, a thing is reset in every child that is forked: after those that were made before it."""
    _all.append(weakref.ref(thing, _all.remove))


def _reset_all() -> None:
    for reference in list(_all):
        thing = reference()
        if thing is not None:
            thing.reset_after_fork()


os.register_at_fork(after_in_child=_reset_all)
