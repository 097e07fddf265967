"""Which boot of the machine this is: clock values and page cache contents of another boot are not valid in this one."""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """Return the id of this boot, or an empty string where it is not known. The node cache needs it: Linux only."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
