"""Ends a worker process with its parent, even in the middle of a request, which may take minutes."""

import os
import select
import threading
import time

_LOOK_AGAIN_SECONDS = 0.5
_GRACE_SECONDS = 1.0  # in which a worker that is not busy ends by itself


def end_with_parent(parent: int, connection: int | None = None) -> None:
    """Start a thread that ends this process when its parent has died or has closed the connection to it.

    Args:
        parent: Process id of the parent.
        connection: Descriptor of a socket whose other end the parent holds.
    """
    threading.Thread(target=_end, args=(parent, connection), name="penstock-parent", daemon=True).start()


def _end(parent: int, connection: int | None) -> None:
    hangup = select.poll()
    if connection is not None:
        hangup.register(connection, 0)  # a hang-up is always reported
    while os.getppid() == parent and not hangup.poll(_LOOK_AGAIN_SECONDS * 1000):
        pass
    time.sleep(_GRACE_SECONDS)
    os._exit(1)
