"""How many files this process may have open."""

import resource
from contextlib import suppress

_ENOUGH = 65_536


def allow_many_files() -> None:
    """Raise the soft limit of open files, as far as the hard limit allows: often it is 1,024 for no reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(_ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
