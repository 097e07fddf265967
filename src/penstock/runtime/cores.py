"""Number of cores that a process may use for one batch."""

import os
import sys

_in_worker = False
_MAX_THREADS = 16  # threads: a batch has no work for more


def this_is_a_worker() -> None:
    """Note that this process is one of several that make batches side by side."""
    global _in_worker
    _in_worker = True


def own_cores() -> int:
    """Return the number of threads for one batch: 1 in a worker process, else this rank's share of cores."""
    data = getattr(getattr(sys.modules.get("torch"), "utils", None), "data", None)  # never imports torch itself
    if _in_worker or (data is not None and data.get_worker_info() is not None):
        return 1
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return max(1, min(_MAX_THREADS, len(os.sched_getaffinity(0)) // ranks))
