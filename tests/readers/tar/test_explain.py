"""What a person with a broken filelist gets to read."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.manifest.errors import MAX_SHOWN, ManifestError
from penstock.readers.tar.explain import find_problems, wrong_seconds
from penstock.readers.tar.filelist import open_filelist, read_filelist


def problems_of(tmp_path: Path, content: str | bytes, known: set[str] | None = None) -> list[str]:
    path = tmp_path / "train.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ManifestError) as caught:
        read_filelist(path, known_shards=known)
    return [str(problem) for problem in caught.value.problems]


def test_all_problems_come_together_each_with_its_line(tmp_path: Path) -> None:
    lines = [
        "a.tar\tone\ten\t1.5",
        "",
        "a.tar\ttwo\ten",
        "\ttwo\ten\t1",
        "a.tar\t\ten\t1",
        "a.tar\tthree\t\t1",
        "a.tar\tfour\ten\tlong",
        "a.tar\tfive\ten\t-1",
        "a.tar\tsix\ten\t0",
        "a.tar\tseven\ten\tnan",
        "a.tar\teight\ten\t-inf",
        "a.tar\tnine\ten\t90000",
        "a.tar\tone\tde\t2",
        "b.tra\tten\ten\t3",
        "a.tar\televen\ten\t",
    ]
    found = problems_of(tmp_path, "\n".join(lines), known={"a.tar", "b.tar"})
    assert found == [
        "train.tsv:3: 3 columns where 4 are needed: shard, id, language, seconds (by tabs)",
        "train.tsv:4: the shard is empty",
        "train.tsv:5: the id is empty",
        "train.tsv:6: the language is empty",
        "train.tsv:7: seconds is not a number: 'long'",
        "train.tsv:8: seconds is negative: -1",
        "train.tsv:9: seconds is zero: 0 (an empty clip cannot be a sample)",
        "train.tsv:10: seconds must be a finite number, not 'nan'",
        "train.tsv:11: seconds must be a finite number, not '-inf'",
        "train.tsv:12: seconds is too large: 90000 is over 24 hours (is it in milliseconds or samples?)",
        "train.tsv:13: a.tar:one is already on line 1",
        "train.tsv:15: seconds is not a number: ''",
        "train.tsv:14: there is no shard b.tra; the nearest is b.tar",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"a.tar\tone\ten\t1\t", "5 columns"),
        (b"a.tar\tone\ten\t1 s", "not a number"),
        (b"a.tar\tone\ten\t1,5", "not a number"),
        (b"a.tar\tone\ten\t1_000", "not a number"),
        (b"a.tar\tone\ten\tNA", "not a number"),
        (b"a.tar\tone\ten\t1e-9", "zero"),
        (b"a.tar\tone\ten\t1e999", "too large"),
        (b"a.tar\tone\ten\tInfinity", "finite"),
        (b"a.tar\t\xff\ten\t1", "not valid UTF-8"),
        (b" ", "1 columns"),
    ],
)
def test_one_bad_line_alone_is_found(tmp_path: Path, line: bytes, reason: str) -> None:
    (found,) = problems_of(tmp_path, b"a.tar\tok\ten\t1\r\n\r\n" + line + b"\n")
    assert found.startswith("train.tsv:3: ")
    assert reason in found


def test_the_line_number_is_right_far_into_a_file_with_blank_lines(tmp_path: Path) -> None:
    lines = [f"a.tar\tclip{number}\ten\t1\n" if number % 3 else "\n" for number in range(200_000)]
    lines[150_001] = "a.tar\tclip1\ten\t1\n"
    assert problems_of(tmp_path, "".join(lines)) == ["train.tsv:150002: a.tar:clip1 is already on line 2"]


def test_more_problems_than_can_be_shown_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("a.tar\tone\ten\tx\n" * 100)
    with pytest.raises(ManifestError) as caught:
        read_filelist(path)
    assert len(caught.value.problems) == MAX_SHOWN
    assert caught.value.counts == {"seconds": 100, "duplicate": 99}
    assert "199 problems (100 × seconds, 99 × duplicate)" in str(caught.value)
    assert "and 179 more" in str(caught.value)


def test_an_empty_filelist_says_so(tmp_path: Path) -> None:
    for content in ("", "\n\n"):
        (tmp_path / "train.tsv").write_text(content)
        with pytest.raises(ManifestError, match=r"train\.tsv"):
            read_filelist(tmp_path / "train.tsv")


FIELDS = st.sampled_from(["a", "b", "", '"', "#", "é", " ", "1", "0", "-1", "nan", "2.5", "1e3", "1e6", "\x00", "x y"])
LINES = st.one_of(
    st.lists(FIELDS, min_size=4, max_size=4),
    st.tuples(FIELDS, FIELDS, FIELDS, st.sampled_from(["1", "2.5", ".5", "7."])),
    st.lists(FIELDS, max_size=5),
).map(lambda fields: "\t".join(fields).encode())
ENDS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r"])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(LINES | st.just(b"\xff\t\t\t1"), ENDS), min_size=1, max_size=6), st.booleans())
def test_the_quick_checks_and_the_slow_ones_agree(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[bytes, bytes]], ended: bool
) -> None:
    content = b"".join(line + end for line, end in lines)
    path = tmp_path_factory.mktemp("filelist") / "train.tsv"
    path.write_bytes(content if ended else content.rstrip(b"\r\n"))
    try:
        accepted = len(read_filelist(path).ids)
    except ManifestError as error:
        assert error.problems or not content.strip(b"\r\n"), f"refused without a reason: {error}"
    else:
        assert not find_problems(path)
        assert accepted == sum(1 for line, _ in lines if line)


@given(st.floats(min_value=1e-6, max_value=86_400))
def test_every_sensible_duration_is_accepted(seconds: float) -> None:
    assert wrong_seconds(repr(seconds)) == ""


@pytest.mark.parametrize("header", ["shard\tid\tlanguage\tseconds", "\ufeffPath\tKey\tLang\tDuration (s)"])
def test_a_header_line_is_told_as_such_and_once(tmp_path: Path, header: str) -> None:
    found = problems_of(tmp_path, f"{header}\na.tar\tone\ten\t1\n", known={"a.tar"})
    columns = ", ".join(header.removeprefix("\ufeff").split("\t"))
    assert found == [f"train.tsv:1: is a header line ({columns}); a filelist has none: remove it"]


@pytest.mark.parametrize("line", ["a.tar\tone\ten\tlong", "shard\tone\ten\tnan", "shard\tone\ten\t-"])
def test_a_first_line_that_is_only_wrong_is_no_header(tmp_path: Path, line: str) -> None:
    [found] = problems_of(tmp_path, f"{line}\n")
    assert "seconds" in found and "header" not in found


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\r\n", b"\xef\xbb\xbf"])
def test_an_empty_filelist_says_what_is_missing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "train.tsv").write_bytes(content)
    with pytest.raises(
        ManifestError, match=r"train.tsv: has no lines; write one per clip: shard, id, language and sec"
    ):
        read_filelist(tmp_path / "train.tsv")


def test_a_filelist_that_is_not_there_is_named(tmp_path: Path) -> None:
    for use in (lambda path: open_filelist(path, tmp_path / "compiled"), read_filelist):
        with pytest.raises(FileNotFoundError, match=r"^/.*/none.tsv: no such filelist$"):
            use(tmp_path / "none.tsv")
        with pytest.raises(FileNotFoundError, match="is a folder, not a filelist"):
            use(tmp_path)
