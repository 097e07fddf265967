"""Identifier of the machine's current boot: monotonic clock and page cache do not outlive a boot."""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """Return the id of this boot; empty if it is unknown."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
