"""Files and folders that only this user, root, or a group chosen by the user can have written.

A folder that is shared with a group lets the group write (``g+w``) and hands its group down (setgid). What is made in a
folder gets the folder's permissions: private in a private one, shared in a shared one.
"""

import contextlib
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

_SHARED = 0o2770
_PRIVATE = 0o700


class NotOwned(PermissionError):
    """A file or folder may have been written by somebody else; the message says by whom and what to do."""


def own_folder(folder: Path, group: str | None) -> None:
    """Make a folder private, or shared with one group only; create it if it does not exist.

    Args:
        folder: Folder. Only its owner can change its permissions; for others they must be right already.
        group: Name of the group to share it with.

    Raises:
        NotOwned: If the folder belongs to another user, or others may write in it.
        ValueError: If there is no such group, or this user is not in it.
    """
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    found = folder.stat()
    mode = _SHARED if group else _PRIVATE
    if group and (new or found.st_uid == os.getuid()):
        _give_to_group(folder, group)
    too_open = stat.S_IMODE(found.st_mode) & 0o7022 != mode & 0o7022
    if new or (too_open and found.st_uid == os.getuid()):
        folder.chmod(mode)
    found = folder.stat()
    loose = found.st_mode & (stat.S_IWOTH if group else stat.S_IWOTH | stat.S_IWGRP)
    if found.st_uid not in (os.getuid(), 0) and not (group and _is_shared(found)):
        raise NotOwned(_of_somebody_else(folder, found))
    if loose:
        raise NotOwned(
            f"other users may write into {folder} (mode {stat.S_IMODE(found.st_mode):o}) and could put wrong data into "
            f"it: use a folder inside it, such as {folder / 'penstock'}, which is then made private"
        )


def check_owner(folder: Path) -> None:
    """Raise NotOwned if a folder belongs to another user, and to no group that shares it."""
    found = folder.stat()
    if found.st_uid not in (os.getuid(), 0) and not _is_shared(found):
        raise NotOwned(_of_somebody_else(folder, found))


def _of_somebody_else(folder: Path, found: os.stat_result) -> str:
    return (
        f"{folder} belongs to user {found.st_uid}, who could put wrong data into it: use a folder of your own, or have "
        "its owner share it with a group (cache.group)"
    )


def check_below(folder: Path) -> None:
    """Check everything below a folder: no links, and nothing of another user.

    Raises:
        NotOwned: At the first violation, which the message names.
    """
    for each in _walk(str(folder)):
        if each.is_symlink():
            raise NotOwned(
                f"{each.path} is a link, which a cache never contains: remove it, and find out who created it"
            )
        with contextlib.suppress(FileNotFoundError):  # gone since the folder was listed
            _check(each.stat(follow_symlinks=False), each.path)


def open_owned(path: str | Path, flags: int) -> int:
    """Open a file like ``os.open``, but follow no link to it and refuse a file of another user."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if os.path.islink(path):
            raise NotOwned(
                f"{path} is a link, which a cache never contains: remove it, and find out who created it"
            ) from error
        raise
    try:
        found = os.fstat(fd)
        _check(found, str(path))
        if flags & os.O_CREAT and found.st_uid == os.getuid():
            mode = 0o660 if _is_shared(os.stat(os.path.dirname(path))) else 0o600
            if stat.S_IMODE(found.st_mode) != mode:
                os.fchmod(fd, mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def make_folders(root: Path, folder: Path) -> None:
    """Create a folder below ``root`` and those between them. Links between them are refused, also in existing ones."""
    missing = []
    while folder != root:
        try:
            found = os.lstat(folder)
            _check(found, str(folder))
            if stat.S_ISLNK(found.st_mode):
                raise NotOwned(
                    f"{folder} is a link, which a cache never contains: remove it, and find out who created it"
                )
        except FileNotFoundError:
            missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        _make_folder(each)


def _make_folder(folder: Path) -> None:
    """Make a folder with its parent's permissions. It has them from the start, whenever the process is killed."""
    if not _is_shared(folder.parent.stat()):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(_PRIVATE)
        return
    aside = folder.with_name(f".{folder.name}.{os.getpid()}-{threading.get_ident()}")
    aside.mkdir(_PRIVATE)
    share_like_folder(aside)
    try:
        aside.rename(folder)
    except OSError:  # another process was faster
        aside.rmdir()


def share_like_folder(path: Path) -> None:
    """Let a group write something new, and what is in it, if its folder is shared with the group."""
    if not _is_shared(path.parent.stat()):
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if path.is_dir():
        path.chmod(mode | 0o2070)
        for each in path.iterdir():
            share_like_folder(each)
    else:
        path.chmod(mode | 0o060)


def _check(found: os.stat_result, path: str) -> None:
    if found.st_uid in (os.getuid(), 0) or found.st_gid == _group_that_shares(path):
        return
    raise NotOwned(
        f"{path} belongs to user {found.st_uid}, who could have put wrong data into it: remove it, and find out who "
        "created it"
    )


def _group_that_shares(path: str) -> int | None:
    """Return the group of the nearest shared folder above a path: only its members can write below it."""
    for folder in Path(path).parents:
        found = folder.stat()
        if _is_shared(found):
            return found.st_gid
        if found.st_uid in (os.getuid(), 0):
            return None
    return None


def _is_shared(folder: os.stat_result) -> bool:
    return folder.st_mode & (stat.S_IWGRP | stat.S_ISGID | stat.S_IWOTH) == stat.S_IWGRP | stat.S_ISGID


def _give_to_group(folder: Path, group: str) -> None:
    try:
        shutil.chown(folder, group=group)
    except LookupError:
        raise ValueError(f"cache.group: there is no group {group!r} on this machine") from None
    except PermissionError:
        raise ValueError(f"cache.group: this user is not in the group {group!r}") from None


def _walk(folder: str) -> "Iterator[os.DirEntry[str]]":
    """Yield everything below a folder, except what is removed meanwhile."""
    try:
        found = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for each in found:
        yield each
        if each.is_dir(follow_symlinks=False):
            yield from _walk(each.path)
