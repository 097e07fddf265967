"""Pickles whose arrays lie beside them in a file, so that all processes that load them map the same bytes.

sizes of all parts | pickle | array | array | …       each part begins at a multiple of 64 bytes
"""

import mmap
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

_ALIGNMENT = 64


def dump_mapped(thing: Any) -> Iterator[bytes | memoryview]:
    """Yield the pieces of a file that holds a pickled object.

    Args:
        thing: Object to pickle. Contiguous arrays in it lie beside the pickle.
    """
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(pickled), *(buffer.raw() for buffer in buffers)]
    sizes = np.array([len(parts), *map(len, parts)], np.int64).tobytes()
    for part in (memoryview(sizes), *parts):
        yield part
        yield bytes(-len(part) % _ALIGNMENT)


def load_mapped(descriptor: int) -> Any:
    """Return the object that a file holds. Its arrays are read-only, and mapped for as long as they live.

    Args:
        descriptor: Descriptor of the file, which may be closed afterwards.
    """
    whole = memoryview(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))
    count = int(np.frombuffer(whole, np.int64, 1)[0])
    sizes = np.frombuffer(whole, np.int64, count + 1)
    starts = np.cumsum(-(-np.append(sizes.nbytes, sizes[1:]) // _ALIGNMENT) * _ALIGNMENT).tolist()
    parts = [whole[start : start + size] for start, size in zip(starts, sizes[1:].tolist(), strict=False)]
    return pickle.loads(parts[0], buffers=parts[1:])
