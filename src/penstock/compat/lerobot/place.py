"""Where a dataset is: a folder, or a repository on the hub."""

import fcntl
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.readers.lerobot.info import PATH, VERSION
from penstock.store.pull import pull
from penstock.store.remote.hub import give_token
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectMissing


def place_of(
    repo_id: str,
    root: str | Path | None,
    revision: str | None,
    repo_type: str,
    token: str | bool | None,
    streaming: bool,
    force_sync: bool = False,
) -> tuple[str, dict[str, Any]]:
    """Return the store of a dataset, and the keys of ``remote`` in a config.

    Args:
        repo_id: Repository on the hub.
        root: Folder of the dataset. By default LeRobot's own folder, else the hub. With a bucket, the folder to which
            ``meta/`` is copied.
        revision: Revision on the hub. By default the tag of the dataset's format, or else the main branch.
        repo_type: ``dataset`` or ``bucket``.
        token: Token of the hub; False for none.
        streaming: Whether to read from the hub. Otherwise the dataset is downloaded to LeRobot's own folder.
        force_sync: Whether to copy ``meta/`` of a bucket again.

    Raises:
        ValueError: If ``repo_id`` is a path.
    """
    if root is not None and repo_type == "dataset":
        return str(root), {}
    if repo_type == "dataset" and (repo_id.count("/") > 1 or repo_id.startswith((".", "/", "~"))):
        raise ValueError(f"repo_id: {repo_id!r} is not ORG/NAME on the hub; the folder of a dataset is named by root=")
    folder = _folder(repo_id, revision, repo_type)
    if root is None and (folder / PATH).is_file():
        return str(folder), {}
    if isinstance(token, str):
        give_token(repo_id, token)
    options = StoreOptions(anonymous=token is False)
    url = _url(repo_id, revision, repo_type, options)
    if root is not None:
        copied = Path(root) / "meta"
        if force_sync or not (Path(root) / PATH).is_file():
            pull(f"{url}/{copied.name}", copied, options=options)
        return url, {"anonymous": token is False}
    if streaming:
        return url, {"anonymous": token is False}
    _download(url, folder, options)
    return str(folder), {}


def _folder(repo_id: str, revision: str | None, repo_type: str) -> Path:
    """Return where LeRobot keeps a dataset. A bucket may have the name of a dataset that is something else."""
    home = os.environ.get("HF_LEROBOT_HOME") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface") / "lerobot"
    if repo_type == "bucket":
        return Path(home).expanduser() / f"buckets--{repo_id.replace('/', '--')}"
    name = repo_id if revision is None else f"{repo_id}@{revision.replace('/', '--')}"
    return Path(home).expanduser() / name


def _url(repo_id: str, revision: str | None, repo_type: str, options: StoreOptions) -> str:
    if repo_type == "bucket":
        return f"hf://buckets/{repo_id}"
    if revision is not None:
        return f"hf://datasets/{repo_id}@{quote(revision, safe='')}"
    tagged = f"hf://datasets/{repo_id}@{VERSION}"
    try:
        open_remote(tagged, options).head(PATH)
    except ObjectMissing:
        return f"hf://datasets/{repo_id}"
    return tagged


def _download(url: str, folder: Path, options: StoreOptions) -> None:
    """Download a dataset. A folder with its name is complete: until then it has another one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other ranks of this node wait
        if (folder / PATH).is_file():
            return
        if folder.exists() and any(folder.iterdir()):
            raise FileExistsError(f"{folder} exists and has no {PATH}: remove it, or name the dataset's folder as root")
        unfinished = folder.with_name(f"{folder.name}.part")
        pull(url, unfinished, options=options)
        unfinished.rename(folder)
