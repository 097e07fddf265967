"""Damage is told, never read past."""

import gzip
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.readers.errors import ContentError
from penstock.readers.tar.archive import BLOCK, walk
from penstock.readers.window import Window
from penstock.store.local import LocalStore
from tests.readers.tar.archives import TARFILE_FORMATS, gnu_tar, samples_of, write_tar

FILES = [("en/a.wav", b"a" * 700), ("en/a.json", b"{}"), ("en/" + "long" * 60 + ".wav", b"b" * 1300), ("en/b.wav", b"")]


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_an_archive_cut_anywhere_is_an_error_or_a_shorter_archive(tmp_path: Path, form: str) -> None:
    path = write_tar(tmp_path / "whole.tar", FILES, TARFILE_FORMATS[form])
    data = path.read_bytes()
    with tarfile.open(path) as archive:
        # Between two members nothing shows a cut: tar archives without an end mark are in use.
        ends = {member.offset for member in archive} | {archive.offset, *range(archive.offset + BLOCK, len(data))}
    whole = dict(samples_of(path))
    cut = tmp_path / "cut.tar"
    for length in range(0, len(data), 64):
        cut.write_bytes(data[:length])
        if length in ends and length:
            for key, files in samples_of(cut):
                assert files.items() <= whole[key].items()
        else:
            with pytest.raises(ContentError, match=r"cut\.tar: is (cut short|empty)"):
                samples_of(cut)


def test_a_damaged_header_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "shard.tar", FILES)
    with tarfile.open(path) as archive:
        second = archive.getmembers()[1].offset
    data = bytearray(path.read_bytes())
    data[second + 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ContentError, match=f"shard.tar: no valid tar header at byte {second}; the archive is damaged"):
        samples_of(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"x" * 10, "is cut short"),
        (b"x" * 2000, "it is not a tar archive"),
        (gzip.compress(bytes(range(256)) * 20), "is compressed"),
        (b"\x28\xb5\x2f\xfd" + b"zstd" * 500, "is compressed"),
    ],
)
def test_what_is_no_tar_says_what_it_is(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "shard.tar").write_bytes(content)
    with pytest.raises(ContentError, match=f"shard.tar: .*{reason}"):
        samples_of(tmp_path / "shard.tar")


@pytest.mark.parametrize("form", ["gnu", "posix"])
def test_sparse_members_are_refused_by_name(tmp_path: Path, form: str) -> None:
    (tmp_path / "tree").mkdir()
    with open(tmp_path / "tree" / "holes.wav", "wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 19)
        file.write(b"x")
    path = gnu_tar(tmp_path / "shard.tar", tmp_path / "tree", form, "--sparse")
    with pytest.raises(ContentError, match=r"holes.wav.* is sparse"):
        samples_of(path)


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_members_above_8_gib_are_stepped_over(tmp_path: Path, form: str) -> None:
    def header(name: str, size: int) -> bytes:
        member = tarfile.TarInfo(name)
        member.size = size
        return member.tobuf(TARFILE_FORMATS[form])

    large = 9 << 30
    path = tmp_path / "shard.tar"
    with open(path, "wb") as file:  # the file has holes, the archive does not know
        file.write(header("a.bin", large))
        start = file.tell()
        file.seek(start + large)
        file.write(header("b.bin", 5) + b"hello" + bytes(507) + bytes(1024))
    blob = LocalStore(tmp_path).open("shard.tar")
    entries = list(walk(Window(blob, 4096), "shard.tar"))
    assert [(entry.name, entry.size) for entry in entries] == [("a.bin", large), ("b.bin", 5)]
    assert entries[0].offset == start
    blob.close()


def test_appended_and_updated_archives_of_gnu_tar_are_read_to_the_end(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).write_text(name)
    command = ["tar", "-C", str(tmp_path), "-f", str(tmp_path / "shard.tar")]
    subprocess.run([*command, "-c", "a.wav"], check=True)
    subprocess.run([*command, "-r", "b.wav"], check=True)
    assert samples_of(tmp_path / "shard.tar") == [("a", {"wav": b"a.wav"}), ("b", {"wav": b"b.wav"})]


@pytest.mark.parametrize("size", ["junk", "-1", "", "²", "1" * 5000])
def test_a_pax_size_that_is_no_number_is_damage(tmp_path: Path, size: str) -> None:
    member = tarfile.TarInfo("a.wav")
    member.pax_headers = {"size": size}
    (tmp_path / "shard.tar").write_bytes(member.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    with pytest.raises(ContentError, match=r"shard\.tar: damaged PAX records"):
        samples_of(tmp_path / "shard.tar")


def test_global_pax_records_are_stepped_over(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "shard.tar", "w", pax_headers={"comment": "as git archive writes it"}) as archive:
        archive.addfile(tarfile.TarInfo("a.wav"))
    assert samples_of(tmp_path / "shard.tar") == [("a", {"wav": b""})]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damage_makes_it_fail_in_another_way_or_read_out_of_bounds(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = write_tar(tmp_path_factory.mktemp("damage") / "shard.tar", FILES)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        samples_of(path)
    except ContentError as error:
        assert error.shard == "shard.tar"


def pax_header(records: bytes) -> bytes:
    """A PAX header with these records, as tarfile would write it."""
    header = tarfile.TarInfo("pax")
    header.type = tarfile.XHDTYPE
    header.size = len(records)
    return header.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512)


def test_a_megabyte_of_pax_records_is_read_in_one_pass(tmp_path: Path) -> None:
    """Time grows with the records, not with their square: four times as many take less than ten times as long."""

    def seconds(megabytes: float) -> float:
        records = b"6 a=b\n" * int(megabytes * (1 << 20) / 6)
        clip = tarfile.TarInfo("clip.wav").tobuf(tarfile.USTAR_FORMAT)
        (tmp_path / "shard.tar").write_bytes(pax_header(records) + clip + bytes(1024))
        start = time.process_time()
        assert samples_of(tmp_path / "shard.tar") == [("clip", {"wav": b""})]
        return time.process_time() - start

    few = min(seconds(0.24) for _ in range(3))
    assert min(seconds(0.96) for _ in range(3)) < 10 * few


def test_any_number_of_pax_headers_before_a_file_take_no_memory_and_the_first_counts(tmp_path: Path) -> None:
    many = b"".join(pax_header(f"{9 + len(str(n))} key{n}=v\n".encode()) for n in range(1_000, 6_000))
    path = pax_header(b"17 path=real.wav\n") + pax_header(b"18 path=other.wav\n")
    clip = tarfile.TarInfo("clip.wav").tobuf(tarfile.USTAR_FORMAT)
    (tmp_path / "shard.tar").write_bytes(many + path + clip + bytes(1024))
    assert samples_of(tmp_path / "shard.tar") == [("real", {"wav": b""})]


@pytest.mark.parametrize(
    "records", [b"0 a=b\n", b"1 a=b\n", b"3 a=b\n", b"99 a=b\n", b"6 a-b\n", b"6 a=bc", b" a=b\n", b"x"]
)
def test_damaged_pax_records_are_told(tmp_path: Path, records: bytes) -> None:
    (tmp_path / "shard.tar").write_bytes(pax_header(records) + bytes(1024))
    with pytest.raises(ContentError, match=r"shard\.tar: damaged PAX records"):
        samples_of(tmp_path / "shard.tar")
