"""Reset in forked children: locks that a thread of the parent may hold, and what they guard."""

import os
import weakref
from typing import Protocol


class Resettable(Protocol):
    """An object with state that a forked child must not inherit."""

    def reset_after_fork(self) -> None:
        """Reset the state. Called in the child, which has none of the threads of its parent."""
        ...


_all: "list[weakref.ref[Resettable]]" = []


def reset_in_children(thing: Resettable) -> None:
    """Reset an object in every child that is forked while the object is alive, in the order of registration."""
    _all.append(weakref.ref(thing, _all.remove))


def _reset_all() -> None:
    for reference in list(_all):
        thing = reference()
        if thing is not None:
            thing.reset_after_fork()


os.register_at_fork(after_in_child=_reset_all)
