"""Which boot of the machine this is: what a clock or a page cache said in another one means nothing in this."""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """Empty where the system does not tell; the node cache, which must know, runs on Linux alone."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
