"""Keys cannot leave the cache, cannot share a path, and stay readable."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.cache.paths import DATA, have_path, is_data, object_path

URL = "s3://bucket/speech"
HOSTILE = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="/.~%a\0", max_size=12),
    st.text(alphabet="ab/", min_size=180, max_size=3000),
    st.text(alphabet="é%~", min_size=60, max_size=400),
)


def test_a_path_reads_like_its_key() -> None:
    assert str(object_path(URL, "telugu/shard-0.tar", '"9f8e"')) == "s3/bucket/speech/telugu/shard-0.tar~9f8e.data"


def test_a_prefix_in_the_url_or_in_the_key_is_the_same_object() -> None:
    assert object_path("s3://bucket", "speech/a", "1") == object_path(URL, "a", "1")


def test_a_scheme_whose_objects_would_not_be_found_again_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mem://x: a cache can't keep objects of mem://"):
        object_path("mem://x", "a", "1")


@given(HOSTILE, st.text(max_size=100))
def test_every_object_is_known_for_one_by_its_name(key: str, etag: str) -> None:
    assert is_data(object_path(URL, key, etag).name)


@given(HOSTILE, st.text(max_size=100))
def test_no_key_leaves_the_cache_or_breaks_a_file_system(key: str, etag: str) -> None:
    path = object_path(URL, key, etag)
    assert not path.is_absolute() and path.parts[0] == "s3" and path.name.endswith(DATA)
    assert all(part not in ("", ".", "..") and "\0" not in part for part in path.parts)
    assert all(len(os.fsencode(part)) <= 255 for part in path.parts)
    assert len(os.fsencode(str(path))) < 3000
    assert os.path.normpath(path) == str(path)


@given(st.tuples(HOSTILE, st.text(max_size=80)), st.tuples(HOSTILE, st.text(max_size=80)))
def test_no_two_objects_or_versions_share_a_path(one: tuple[str, str], two: tuple[str, str]) -> None:
    one, two = (one[0], one[1].strip('"')), (two[0], two[1].strip('"'))
    same = object_path(URL, *one) == object_path(URL, *two)
    assert same == (one == two)


@given(HOSTILE, HOSTILE)
def test_an_object_is_never_the_folder_of_another(key: str, other: str) -> None:
    path, longer = object_path(URL, key, "1"), object_path(URL, f"{key}/{other}", "1")
    for file in (path, Path(have_path(str(path)))):
        assert str(file) not in {str(folder) for folder in longer.parents}


@pytest.mark.parametrize(
    "pair",
    [
        ("a~1", "a%7E1"),
        ("a%2F", "a%252F"),
        ("", "%"),
        (".", "%2E"),
        ("x" * 181, "x" * 182),
        ("a//b", "a/b"),
        ("/a", "a"),
        ("a" * 300 + "/b", "a" * 301 + "/b"),
        ("\ud800", "%D800"),
    ],
)
def test_look_alikes_stay_apart(pair: tuple[str, str]) -> None:
    assert object_path(URL, pair[0], "1") != object_path(URL, pair[1], "1")


@given(HOSTILE)
def test_the_file_can_really_be_made(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    path = tmp_path_factory.getbasetemp() / "made" / object_path(URL, key, "1")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    Path(have_path(str(path))).touch()
