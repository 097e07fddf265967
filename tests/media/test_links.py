"""Paths and URLs that records name: which are opened, and what is said of the others."""

import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.config import ConfigError
from penstock.media.audio.sound import sound_samples
from penstock.media.errors import BadMedia
from penstock.media.image.pixels import image_pixels, image_size
from penstock.media.links import Links
from penstock.media.video.frames import video_frames
from penstock.store.local import LocalStore
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import AccessDenied, ObjectChanged, StoreUnavailable
from penstock.store.stores import Stores
from tests.media.movies import REAL
from tests.servers.stranger import Stranger, whole
from tests.servers.web import Web

PHOTO = (REAL / "1.jpg").read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source with records in ``data/sub``, and a file beside the source."""
    for name in ("source/data/sub/own.jpg", "source/data/images/near.jpg", "source/top.jpg", "outside.jpg"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path


def local(folder: Path, **options: Any) -> Links:
    return Links(open_store=partial(LocalStore, folder / "source"), **options)


@pytest.mark.parametrize(
    ("link", "name"),
    [
        ("own.jpg", "data/sub/own.jpg"),
        ("./own.jpg", "data/sub/own.jpg"),
        ("../images/near.jpg", "data/images/near.jpg"),
        ("../../top.jpg", "top.jpg"),
        ("../../../source/top.jpg", "top.jpg"),
    ],
)
def test_paths_are_relative_to_the_folder_of_the_records(folder: Path, link: str, name: str) -> None:
    roots = (folder / "source",)
    for links in (local(folder, foreign=True), local(folder, media_root=roots)):
        assert links(link, folder="data/sub") == f"source/{name}".encode()
        assert links(name) == f"source/{name}".encode()


def test_records_of_others_name_files_of_their_source_only(folder: Path) -> None:
    outside = str(folder / "outside.jpg")
    for link in (outside, f"file://{outside}", "../outside.jpg", "data/../../outside.jpg"):
        with pytest.raises(BadMedia, match=r"is outside of its source's folder"):
            local(folder, foreign=True)(link)
    assert local(folder, foreign=True)(str(folder / "source" / "top.jpg")) == b"source/top.jpg"
    os.symlink(folder / "outside.jpg", folder / "source" / "link.jpg")  # as the hub's cache has them
    assert local(folder, foreign=True)("link.jpg") == b"outside.jpg"


def test_ones_own_records_name_files_below_their_folder_or_the_run_ends(folder: Path) -> None:
    os.symlink(folder / "outside.jpg", folder / "source" / "link.jpg")
    os.symlink(folder, folder / "source" / "data" / "up")
    outside = str(folder / "outside.jpg")
    links = ("../link.jpg", outside, f"file://{outside}", "../../outside.jpg", "up/outside.jpg", "../no-such.jpg")
    for link in (
        *links,
        "/etc/passwd",
        "file:///etc/shadow",
        "/no/such/file",
        "../../../../../../../../../../etc/passwd",
    ):
        with pytest.raises(ConfigError, match=r"a record in \S+/source/data names .*`media_root` of the source"):
            local(folder)(link, folder="data")
        if "no" not in link and "etc" not in link:
            for root in (folder, Path("/")):
                assert local(folder, media_root=(root,))(link, folder="data") == b"outside.jpg"
    assert local(folder)("sub/../sub/own.jpg", folder="data") == b"source/data/sub/own.jpg"
    assert local(folder)(str(folder / "source/data/sub/own.jpg"), folder="data") == b"source/data/sub/own.jpg"
    with pytest.raises(ConfigError, match=rf"which is '{folder}/outside.jpg'.* add `media_root: {folder}`, or `/` to"):
        local(folder)("up/outside.jpg", folder="data")


def test_a_folder_of_records_may_itself_be_a_link(folder: Path) -> None:
    os.symlink(folder / "source", folder / "linked")
    links = Links(open_store=partial(LocalStore, folder / "linked"))
    assert links("top.jpg") == links(str(folder / "source" / "top.jpg")) == b"source/top.jpg"


def test_relative_paths_are_looked_for_below_media_root_first(folder: Path) -> None:
    (folder / "source" / "data" / "top.jpg").write_bytes(b"beside the records")
    roots = (folder / "source" / "data" / "images", folder / "source")
    links = local(folder, media_root=roots)
    assert links("top.jpg", folder="data") == b"source/top.jpg"
    assert links("near.jpg", folder="data") == b"source/data/images/near.jpg"
    assert links("sub/own.jpg", folder="data") == b"source/data/sub/own.jpg"
    looked = rf"no such file in {roots[0]} or {roots[1]} or {folder}/source/data"
    with pytest.raises(BadMedia, match=looked):
        links("nowhere.jpg", folder="data")


def test_a_second_folder_is_to_be_added_to_media_root_and_not_to_replace_it(folder: Path) -> None:
    links = local(folder, media_root=(folder / "source" / "data" / "images",))
    with pytest.raises(ConfigError, match=rf"only; add {folder} to `media_root`, or `/` to"):
        links(str(folder / "outside.jpg"), folder="data")


def test_a_link_that_leads_out_of_media_root_ends_the_run(folder: Path) -> None:
    root = folder / "root"
    root.mkdir()
    os.symlink(folder / "outside.jpg", root / "link.jpg")
    with pytest.raises(ConfigError, match="media_root"):
        local(folder, media_root=(root,))("link.jpg")
    with pytest.raises(BadMedia, match="cannot be opened"):
        local(folder, media_root=(root,), foreign=True)("link.jpg")


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ("no-such.jpg", "cannot be opened: .*[Nn]o such file"),
        ("data", "is not a file"),
        ("top.jpg/x", "cannot be opened: .*Not a directory"),
        ("x" * 5_000, "cannot be opened: .*File name too long"),
        ("a\0b", "contains NUL"),
        ("s3://bucket/x.jpg", "only paths, http:// and https:// URLs are opened"),
        ("file://host/x.jpg", "only paths, http:// and https:// URLs"),
        ("\ud800.jpg", "cannot be opened: .*surrogates not allowed"),
        ("zip://a.jpg::https://host/x.zip", "only paths, http:// and https:// URLs"),
        (".", "is not a file"),
        ("pipe", "is not a file"),
        ("/dev/zero", "is not a file"),
        ("circle", "cannot be opened: .*(Too many levels|Symlink loop)"),
    ],
)
def test_what_cannot_be_opened_is_a_bad_sample(folder: Path, link: str, sentence: str) -> None:
    os.mkfifo(folder / "source" / "pipe")
    os.symlink("circle", folder / "source" / "circle")
    with pytest.raises(BadMedia, match=sentence):
        local(folder, media_root=(Path("/"),))(link)


def test_a_file_that_may_not_be_read_is_a_bad_sample(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("penstock.media.links.LocalBlob", refuse)
    with pytest.raises(BadMedia, match=r"cannot be opened: .*Permission denied"):
        local(folder)("top.jpg")


def test_a_failing_disk_is_not_mistaken_for_a_bad_sample(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("penstock.media.links.LocalBlob", fail)
    with pytest.raises(OSError, match="Input/output"):
        local(folder)("top.jpg")


@pytest.mark.parametrize(
    "decode",
    [
        lambda open_link: image_pixels("x", open_link),
        lambda open_link: image_size("x", open_link),
        lambda open_link: video_frames("x", 2, lambda pixels: pixels, open_link),
        lambda open_link: sound_samples("x", 1.0, 16_000, open_link),
    ],
    ids=["image_pixels", "image_size", "video_frames", "sound_samples"],
)
def test_no_decoder_takes_what_opening_raises_for_a_damaged_file(decode: Callable[[Any], Any]) -> None:
    for error in (OSError(5, "Input/output error"), ConfigError("add `media_root: /`"), StoreUnavailable("busy")):

        def fail(link: str, error: Exception = error) -> bytes:
            raise error

        with pytest.raises(type(error)) as raised:
            decode(fail)
        assert raised.value is error


def test_large_files_are_refused_unread(folder: Path) -> None:
    assert local(folder, max_bytes=14)("top.jpg") == b"source/top.jpg"
    with pytest.raises(BadMedia, match=r"top.jpg has 14 bytes; up to 13 are read"):
        local(folder, max_bytes=13)("top.jpg")


def remote(url: str, cache: Path, **options: Any) -> Links:
    stores = Stores(cache, 64 << 20)
    return Links(open_store=partial(stores.open, url, StoreOptions(retry_seconds=1.0), lambda _: {}), **options)


def test_in_a_remote_store_records_name_objects_of_that_store(tmp_path: Path) -> None:
    files = {"/base/data/images/near.jpg": b"near", "/base/top.jpg": b"top", "/other.jpg": b"no"}
    with Web({name: (data, '"1"') for name, data in files.items()}) as web:
        links = remote(f"{web.url}/base", tmp_path)
        assert links("images/near.jpg", folder="data") == b"near"
        assert links("../top.jpg", folder="data") == b"top"
        for link in ("../other.jpg", "../../other.jpg", "/other.jpg", "/etc/passwd", "file:///etc/passwd"):
            with pytest.raises(BadMedia, match="is outside of http://"):
                links(link)
        odd = ["gone.jpg", "a?b.jpg", "a#b", "a\nb", "\x01", " ", "~", "..x", "a\\b", "\ud800", "%zz", "x" * 5_000]
        for link in odd:
            with pytest.raises(BadMedia, match=r"which cannot be opened"):
                links(link)


def test_records_of_a_store_may_name_files_below_media_root(tmp_path: Path) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / "here.jpg").write_bytes(b"here")
    (tmp_path / "secret").write_bytes(b"secret")
    with Web({"/base/there.jpg": (b"there", '"1"')}) as web:
        links = remote(f"{web.url}/base", tmp_path / "cache", media_root=(tmp_path / "media",))
        assert links("here.jpg") == links(str(tmp_path / "media" / "here.jpg")) == b"here"
        assert links("there.jpg") == b"there"
        for link in ("../secret", str(tmp_path / "secret")):
            with pytest.raises(BadMedia, match="is outside of http://"):
                links(link)


def test_a_store_that_fails_is_not_mistaken_for_a_bad_sample() -> None:
    class Failing:
        url = "s3://bucket"

        def open(self, path: str) -> None:
            kinds = {"busy": StoreUnavailable, "new": ObjectChanged}
            raise kinds.get(path, AccessDenied)(f"{path}: HTTP 403")

    links = Links(open_store=Failing)
    with pytest.raises(StoreUnavailable):
        links("busy")
    with pytest.raises(ObjectChanged):
        links("new")
    with pytest.raises(BadMedia, match="HTTP 403"):  # what S3 says of a missing object to those who may not list
        links("x.jpg")


def test_urls_are_fetched_only_when_allowed_and_the_refusal_names_the_switch(folder: Path) -> None:
    with Stranger(whole(PHOTO)) as host:
        url = f"{host.url}/photo.jpg?signature=secret"
        with pytest.raises(BadMedia, match=r"/photo.jpg, and URLs are not fetched; allow_urls: true allows") as refusal:
            local(folder)(url)
        assert "secret" not in str(refusal.value)
        with pytest.raises(BadMedia, match=r"not to a public address; allow_private: true allows it"):
            local(folder, allow_urls=True)(url)
        assert host.asked == []
        links = local(folder, allow_urls=True, allow_private=True)
        assert links(url) == PHOTO
        assert image_pixels(url.replace("http", "HTTP"), links).shape == (168, 300, 3)


def test_a_dead_url_is_a_bad_sample(folder: Path) -> None:
    links = local(folder, allow_urls=True, allow_private=True, max_bytes=100, seconds=0.3)
    with Stranger(whole(b"", "404 Not Found")) as host, pytest.raises(BadMedia, match=r"/x.jpg: not found: HTTP 404"):
        links(f"{host.url}/x.jpg")
    with Stranger(whole(bytes(101))) as host, pytest.raises(BadMedia, match="101 bytes, more than the limit of 100"):
        links(f"{host.url}/x.jpg")
    with Stranger(lambda *_: host.over.wait(2)) as host, pytest.raises(BadMedia, match=r"not complete after 0.3 s"):
        links(f"{host.url}/x.jpg")


def test_it_pickles(folder: Path) -> None:
    links = pickle.loads(pickle.dumps(local(folder, allow_urls=True)))
    assert links.allow_urls and links("top.jpg") == b"source/top.jpg"
