"""What the node cache may trust after a reboot. Knows nothing of a process's death, which is harmless.

A mark may reach the disk before the bytes that it is about. So the first user after a boot drops every object that was
not complete and synced; until then nothing is read.
"""

import contextlib
from pathlib import Path

from penstock.runtime.aside import write_aside
from penstock.store.cache.account import CONTROL, alone
from penstock.store.cache.admission import Admission
from penstock.store.cache.paths import have_path


def drop_unsynced(root: Path, admission: Admission, part_bytes: int, boot_id: str) -> None:
    """Drop objects that are not complete and synced, once per boot.

    Args:
        boot_id: of this boot. If the cache was already used in it, nothing is done.
    """
    note = root / CONTROL / "boot"
    if note.exists() and note.read_text() == boot_id:
        return
    with alone(root) as account:
        if note.exists() and note.read_text() == boot_id:
            return
        for resident in admission.residents():
            if not _is_sealed(resident.path, -(-resident.size // part_bytes)):
                admission.remove(resident)
        with contextlib.suppress(OSError):  # a full disk: the next process does it again
            account.forget()
            write_aside(note, [boot_id.encode()])


def _is_sealed(path: str, parts: int) -> bool:
    try:
        marks = Path(have_path(path)).read_bytes()
    except FileNotFoundError:
        return False
    return marks[: parts + 1] == b"\1" * (parts + 1)  # notes may come after
