"""A real Ray cluster of this machine, for tests. Its workers import what this process imports."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def running_cluster() -> Iterator[None]:
    """Connect this process to a cluster of its own, with two cores, for the block."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [os.getcwd(), *sys.path])))
        patch.delenv("RAY_ADDRESS", raising=False)
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 << 20,
            _node_ip_address="127.0.0.1",
        )
        try:
            yield
        finally:
            ray.shutdown()
