"""obstore in forked children of a process that has used it. Knows nothing of URLs or requests.

obstore runs its requests on its own threads, which a fork does not copy: a child that uses the inherited module hangs,
and as both share one epoll descriptor, the parent hangs, too (obstore 0.12). So a child never uses it: it loads a
second copy of the compiled module, which has its own threads.

    parent   obstore ──fork──► child: inherited obstore (left alone, never freed)
       └── copy in memory, made once before the fork ──► loaded by each child that needs it
"""

import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import threading
import weakref
from pathlib import Path
from types import ModuleType

COMPILED = "obstore._obstore"

# The children's copy: an open memory file, because dlopen recognises a library that is already loaded by its inode.
_copy: int | None = None
_inherited = False
_library = ""
_loading = threading.Lock()
_clients: "weakref.WeakSet[object]" = weakref.WeakSet()


def obstore() -> ModuleType:
    """Return the public obstore module, safe to call in this process.

    Raises:
        RuntimeError: If the process was forked and no second copy could be made.
    """
    global _copy, _inherited
    with _loading:
        if _inherited:
            if _copy is None:
                raise RuntimeError(
                    "obstore was used before this process was forked, and no second copy of it could be made; start "
                    "worker processes with 'spawn' or 'forkserver' (DataLoader: multiprocessing_context='spawn')"
                )
            _load(_copy)
            os.close(_copy)
            _copy = None
            _inherited = False
    return importlib.import_module("obstore")


def keep_over_fork(client: object) -> None:
    """Never free ``client`` in a forked child: freeing it would use threads that do not exist there."""
    _clients.add(client)


def _load(descriptor: int) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "obstore"]:
        _leak(sys.modules.pop(name))
    path = f"/proc/self/fd/{descriptor}"
    loader = importlib.machinery.ExtensionFileLoader(COMPILED, path)
    spec = importlib.util.spec_from_file_location(COMPILED, path, loader=loader)
    assert spec is not None
    sys.modules[COMPILED] = importlib.util.module_from_spec(spec)
    loader.exec_module(sys.modules[COMPILED])


def _leak(thing: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _before_fork() -> None:
    global _copy, _library
    if _copy is None and COMPILED in sys.modules:
        _library = _library or str(sys.modules[COMPILED].__file__)
        _copy = os.memfd_create("obstore")
        data = memoryview(Path(_library).read_bytes())
        while data:
            data = data[os.write(_copy, data) :]


def _after_fork_in_child() -> None:
    global _inherited, _loading
    _loading = threading.Lock()  # another thread of the parent may have held it
    for client in list(_clients):
        _leak(client)
    _clients.clear()
    _inherited = COMPILED in sys.modules


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
