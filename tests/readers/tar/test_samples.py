"""The same samples with the same bytes as the webdataset package reads."""

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from webdataset.tariterators import base_plus_ext, group_by_keys, tar_file_expander

from penstock.readers.tar.samples import split_name
from tests.readers.tar.archives import GNU_TAR_FORMATS, TARFILE_FORMATS, Samples, gnu_tar, samples_of, write_tar

# Four folders of so many letters; ustar has room for 255 bytes, in two parts.
DEEP = {"short names": 0, "names over 100 bytes": 30, "names over 255 bytes": 75}
USTAR_DEEP = {"short names": 0, "names over 100 bytes": 30, "names over 255 bytes": 38}


def webdataset_samples(path: Path) -> Samples:
    with open(path, "rb") as stream:
        files = tar_file_expander([{"url": str(path), "stream": stream}])
        return [
            (sample.pop("__key__"), {ext: data for ext, data in sample.items() if ext != "__url__"})
            for sample in group_by_keys(files)
        ]


def a_tree(folder: Path, deep: int) -> Path:
    """What people put into shards, and what they did not mean to; names grow by 4 × ``deep`` bytes."""
    nest = "/".join(["d" * deep] * 4) if deep else "nested"
    files = {
        "clip1.wav": b"w" * 1000,
        "clip1.json": b"{}",
        "clip1.seg.TXT": b"text",
        "clip2.wav": b"",
        "clip3.FLAC": os.urandom(513),
        f"{nest}/clip4.wav": os.urandom(512),
        f"{nest}/clip4.json": b"[]",
        f"v1.0/{nest}/clip5.wav": b"dots in folders",
        "ನುಡಿ/ಧ್ವನಿ.wav": "ಕನ್ನಡ".encode(),
        'sp ace/it\'s "here".wav': b"quotes",
        "README": b"no extension",
        ".hidden.wav": b"hidden",
        "._clip1.wav": b"left by a Mac",
        "__meta__": b"top-level meta",
        "__info__/clip.json": b"meta folder",
        "under__score__.wav": b"not meta",
        ".folder/clip6.wav": b"a hidden folder is no hidden file",
    }
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "link.wav").symlink_to("clip1.wav")
    os.link(folder / "clip1.wav", folder / "zhard.wav")
    os.mkfifo(folder / "pipe.wav")
    (folder / "empty.wav").mkdir()
    return folder


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize("form", GNU_TAR_FORMATS)
def test_archives_of_gnu_tar_read_as_webdataset_reads_them(tmp_path: Path, form: str, deep: str) -> None:
    tree = a_tree(tmp_path / "tree", USTAR_DEEP[deep] if form == "ustar" else DEEP[deep])
    path = gnu_tar(tmp_path / "shard.tar", tree, form)
    assert samples_of(path) == webdataset_samples(path)
    assert len(samples_of(path)) == 9


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize("form", TARFILE_FORMATS)
def test_archives_of_tarfile_read_as_webdataset_reads_them(tmp_path: Path, form: str, deep: str) -> None:
    tree = a_tree(tmp_path / "tree", USTAR_DEEP[deep] if form == "ustar" else DEEP[deep])
    path = tmp_path / "shard.tar"
    with tarfile.open(path, "w", format=TARFILE_FORMATS[form]) as archive:
        for name in sorted(os.listdir(tree)):
            archive.add(tree / name, name)
    assert samples_of(path) == webdataset_samples(path)
    assert len(samples_of(path)) == 9


def test_names_from_the_current_folder_keep_their_dot(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree", 0)
    path = tmp_path / "shard.tar"
    subprocess.run(["tar", "-C", tree, "-cf", path, "./clip1.json", "./clip1.wav", "./.hidden.wav"], check=True)
    assert samples_of(path) == webdataset_samples(path)
    assert [key for key, _ in samples_of(path)] == ["./clip1"]


NAMES = st.text("ab._/É", min_size=1, max_size=12)


@given(NAMES | st.builds("__{}__{}".format, NAMES, NAMES))
@example("__a.b__")
@example("____/a.b")
@example("___/a.b")
def test_any_name_splits_as_webdataset_splits_it(name: str) -> None:
    meta = re.match(r"__[^/]*__($|/)", name) or ("/" not in name and name.startswith("__") and name.endswith("__"))
    key, extension = (None, None) if meta else base_plus_ext(name)
    hidden_in_a_folder = key is not None and key.endswith("/")
    expected = None if key is None or hidden_in_a_folder else (key, extension.lower())
    assert split_name(name) == expected


def no_hidden_file_in_a_folder(name: str) -> bool:
    return "/." not in name


FILES = st.lists(
    st.tuples(
        st.text("abÉ./_", min_size=1, max_size=9).map(lambda name: name.strip("/")).filter(no_hidden_file_in_a_folder),
        st.binary(max_size=1100),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(FILES, st.sampled_from(sorted(TARFILE_FORMATS)), st.sampled_from([0, 90, 110, 300]))
def test_any_archive_reads_as_webdataset_reads_it(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[str, bytes]], form: str, long: int
) -> None:
    long = min(long, 80) if form == "ustar" else long
    named = [("x" * long + name, data) for name, data in files]
    path = write_tar(tmp_path_factory.mktemp("any") / "shard.tar", named, TARFILE_FORMATS[form])
    try:
        expected = webdataset_samples(path)
    except ValueError:
        keys = [key for key, _ in samples_of(path)]
        assert len(set(keys)) < len(keys), "a second file of the same name begins a second sample of the same name"
    else:
        assert samples_of(path) == expected


def test_two_samples_with_the_same_name_in_a_row_are_two_samples(tmp_path: Path) -> None:
    files = [("a.wav", b"1"), ("a.json", b"2"), ("a.wav", b"3"), ("a.json", b"4"), ("b.wav", b"5"), ("b.WAV", b"6")]
    assert samples_of(write_tar(tmp_path / "shard.tar", files)) == [
        ("a", {"wav": b"1", "json": b"2"}),
        ("a", {"wav": b"3", "json": b"4"}),
        ("b", {"wav": b"5"}),
        ("b", {"wav": b"6"}),
    ]


def test_a_hidden_file_in_a_folder_is_no_sample_and_does_not_part_one(tmp_path: Path) -> None:
    files = [("en/a.wav", b"1"), ("en/._a.wav", b"2"), ("en/a.json", b"3")]
    path = write_tar(tmp_path / "shard.tar", files)
    assert samples_of(path) == [("en/a", {"wav": b"1", "json": b"3"})]
    assert [key for key, _ in webdataset_samples(path)] == ["en/a", "en/", "en/a"]


def test_a_name_that_is_not_utf8_is_read_too(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "shard.tar", [(b"\xff\xfe.wav".decode("utf-8", "surrogateescape"), b"latin")])
    assert samples_of(path) == webdataset_samples(path)
    assert len(samples_of(path)) == 1
