"""Shares what rank 0 has made with all processes of a job, over the store of torch.distributed. Knows no content.

No collective: a rank that never asks keeps nobody waiting for longer than a minute.
"""

import hashlib
import os
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

from penstock.runtime import ranks

_WAIT_SECONDS = 60.0  # for rank 0; a process then makes it itself
_LOOK_AGAIN_SECONDS = 0.1
_MADE = b"1"
_FAILED = b"0"  # of rank 0: the others try themselves
_in_child = False


def _is_child() -> None:
    global _in_child
    _in_child = True


os.register_at_fork(after_in_child=_is_child)


def once_per_job(name: str, make: Callable[[], bytes]) -> bytes:
    """Return what rank 0 has made, or make it if there is no torch.distributed.

    Args:
        name: Name of what is made, unique in the job.
        make: Function that makes it.
    """
    store = _store()
    if store is None:
        return make()
    key = f"penstock/{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    rank, _ = ranks.current()
    if not rank and not store.check([key]):
        try:
            made = make()
        except BaseException:
            store.set(key, _FAILED)
            raise
        store.set(key, _MADE + zlib.compress(made, 1))
        return made
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        if store.check([key]):
            found: bytes = store.get(key)
            return make() if found == _FAILED else zlib.decompress(found[1:])
        time.sleep(_LOOK_AGAIN_SECONDS)
    return make()


def _store() -> Any:
    """Return the store of torch.distributed; None without one, and in a forked child, which must not use it."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    if _in_child or distributed.get_world_size() < 2:
        return None
    return distributed.distributed_c10d._get_default_store()
