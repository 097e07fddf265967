"""What the node cache may believe after the machine went down. Knows nothing of a process's death, which is harmless.

A mark may reach the disk before the bytes it speaks of. So the first to come after a boot drops every object that was
not whole and written out; until then nobody reads.
"""

from pathlib import Path

from penstock.runtime.aside import write_aside
from penstock.store.cache.admission import CONTROL, Admission, alone
from penstock.store.cache.paths import have_path


def drop_unsynced(root: Path, admission: Admission, part_bytes: int, boot_id: str) -> None:
    """Once a boot. ``boot_id`` is what the cache was last used under if nothing has to be done."""
    note = root / CONTROL / "boot"
    if note.exists() and note.read_text() == boot_id:
        return
    with alone(root):
        if note.exists() and note.read_text() == boot_id:
            return
        for resident in admission.residents():
            if not _is_sealed(resident.path, -(-resident.size // part_bytes)):
                admission.remove(resident)
        write_aside(note, [boot_id.encode()])


def _is_sealed(path: str, parts: int) -> bool:
    try:
        marks = Path(have_path(path)).read_bytes()
    except FileNotFoundError:
        return False
    return marks[: parts + 1] == b"\1" * (parts + 1)  # notes may come after
