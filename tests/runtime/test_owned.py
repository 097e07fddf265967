"""What another user may have written is refused, links are not followed, and what is made is private or shared."""

import grp
import os
import shutil
import stat
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.manifest.publish import publish
from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.owned import NotOwned, check_below, make_folders, open_owned, own_folder
from penstock.store.cache.account import CONTROL
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.paths import object_path
from tests.shards import small_run, write_shards
from tests.store.folder_remote import FolderRemote, open_in

SOMEBODY = 12_345
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    remote = FolderRemote(tmp_path / "bucket")
    remote.put("a", b"right" * 500)
    return remote


def test_a_cache_is_private(tmp_path: Path, remote: FolderRemote) -> None:
    cache = NodeCache(tmp_path / "cache", 10_000)
    open_in(cache, remote, "a").fetch_whole()
    assert mode(cache.root) == 0o700
    below = list(cache.root.rglob("*"))
    assert {mode(path) for path in below if path.is_dir()} == {0o700}
    assert {mode(path) for path in below if path.suffix in (".data", ".have")} == {0o600}


def test_the_owner_of_an_open_folder_makes_it_private(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    NodeCache(folder, 10_000)
    assert mode(folder) == 0o700


def test_a_cache_for_a_group_is_shared_with_that_group_alone(tmp_path: Path, remote: FolderRemote) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    cache = NodeCache(tmp_path / "cache", 10_000, group=group)
    open_in(cache, remote, "a").fetch_whole()
    assert mode(cache.root) == 0o2770
    (data,) = cache.root.rglob("*.data")
    assert mode(data) == 0o660
    assert mode(data.parent) == 0o2770
    with pytest.raises(ValueError, match=r"cache\.group: there is no group 'no-such-group'"):
        NodeCache(tmp_path / "other", 10_000, group="no-such-group")


@as_root
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    os.chown(folder, SOMEBODY, SOMEBODY)
    with pytest.raises(NotOwned, match=r"cache belongs to user 12345.*use a folder of your own"):
        NodeCache(folder, 10_000)


@as_root
def test_planted_bytes_are_not_served(tmp_path: Path, remote: FolderRemote) -> None:
    cache = NodeCache(tmp_path / "cache", 10_000, part_bytes=1_000)
    planted = cache.root / object_path(remote.url, "a", remote.info("a").etag)
    make_folders(cache.root, planted.parent)
    planted.write_bytes(b"wrong" * 500)
    planted.with_suffix(".have").write_bytes(b"\1\1\1\1")
    os.chown(planted, SOMEBODY, SOMEBODY)
    with pytest.raises(NotOwned, match=r"\.data belongs to user 12345"):
        open_in(cache, remote, "a")
    os.chown(planted, 0, 0)
    os.chown(planted.with_suffix(".have"), SOMEBODY, SOMEBODY)
    with pytest.raises(NotOwned, match=r"\.have belongs to user 12345"):
        open_in(cache, remote, "a")


@pytest.mark.parametrize("name", ["entering", "admission", "room_wanted", "counters/total.json", ".part_bytes.partial"])
def test_a_planted_link_is_refused_and_its_target_left_alone(tmp_path: Path, name: str) -> None:
    cache = NodeCache(tmp_path / "cache", 10_000)
    cache.close()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link = cache.root / CONTROL / name
    link.unlink(missing_ok=True)
    link.symlink_to(precious)
    with pytest.raises(NotOwned, match="is a link, which a cache never contains"):
        NodeCache(tmp_path / "cache", 10_000)
    assert precious.read_text() == "mine"


def test_links_among_the_objects_are_refused(tmp_path: Path, remote: FolderRemote) -> None:
    cache = NodeCache(tmp_path / "cache", 10_000)
    outside = tmp_path / "outside"
    outside.mkdir()
    (cache.root / "s3").symlink_to(outside)
    with pytest.raises(NotOwned, match=r"s3 is a link"):
        open_in(cache, remote, "a")
    (cache.root / "s3").unlink()
    place = cache.root / object_path(remote.url, "a", remote.info("a").etag)
    make_folders(cache.root, place.parent)
    place.symlink_to(tmp_path / "precious")
    with pytest.raises(NotOwned, match=r"\.data is a link"):
        open_in(cache, remote, "a")
    assert not list(outside.iterdir())


@as_root
def test_a_group_member_trusts_what_the_group_wrote_and_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    own_folder(folder, grp.getgrgid(os.getgid()).gr_name)
    for name, group in (("ours", os.getgid()), ("theirs", SOMEBODY)):
        (folder / name).touch()
        os.chown(folder / name, SOMEBODY, group)
    os.close(open_owned(folder / "ours", os.O_RDONLY))
    with pytest.raises(NotOwned):
        open_owned(folder / "theirs", os.O_RDONLY)
    with pytest.raises(NotOwned):
        check_below(folder)


@as_root
def test_a_folder_that_others_may_write_is_refused_to_who_cannot_change_it() -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    child = os.fork()
    if child == 0:
        try:
            os.setuid(SOMEBODY)
            own_folder(folder, None)
        except NotOwned as error:
            os._exit(0 if "use a folder inside it" in str(error) else 1)
        except BaseException:
            os._exit(2)
        os._exit(3)
    status = os.waitpid(child, 0)[1]
    folder.rmdir()
    assert os.waitstatus_to_exitcode(status) == 0


@as_root
def test_a_local_run_uses_nothing_that_somebody_else_learnt(tmp_path: Path) -> None:
    write_shards(tmp_path)
    options = small_run(tmp_path, global_batch_size=4)
    penstock.open(options, rank=0, world=1).batch(0)
    learnt = sorted((tmp_path / "cache" / CONTROL / "indexes").glob("*.learnt"))
    os.chown(learnt[0], SOMEBODY, SOMEBODY)
    with pytest.raises(NotOwned, match=r"\.learnt belongs to user 12345"):
        penstock.open(options, rank=0, world=1)


@as_root
def test_what_one_user_of_a_group_makes_another_can_use_and_replace() -> None:
    """Two users with a umask that shares nothing; a group of their own number stands for a named one."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    folder = top / "cache"
    own_folder(folder, grp.getgrgid(0).gr_name)
    os.chown(folder, 1_001, SOMEBODY)
    folder.chmod(0o2770)

    def use() -> None:
        make_folders(folder, folder / CONTROL)
        check_below(folder / CONTROL)
        os.close(open_owned(folder / CONTROL / "lock", os.O_RDWR | os.O_CREAT))
        write_atomically(folder / CONTROL / "note", [b"text"])
        MetadataCache(folder / CONTROL / "indexes", "any 1").put(ObjectVersion("store", "path", "1"), b"body")
        assert MetadataCache(folder / CONTROL / "indexes", "any 1").get(ObjectVersion("store", "path", "1")) == b"body"
        publish(folder / CONTROL / "manifests" / "one", lambda out: (out / "file").write_text("text") and None)

    codes = [as_user(uid, use) for uid in (1_001, 1_002, 1_001)]
    shutil.rmtree(top)
    assert codes == [0, 0, 0]


def as_user(uid: int, use: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([SOMEBODY])
            os.setgid(uid)
            os.setuid(uid)
            os.umask(0o077)
            use()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
