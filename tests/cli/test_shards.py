from pathlib import Path

import pytest

from penstock.cli.shards import named_shards


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("hindi/a.tar", "hindi/b.tar", "odia/a.tar", "odia/notes.txt"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "data"


def test_a_folder_stands_for_all_tars_below_it_and_paths_are_relative_to_it(data):
    shards = named_shards([str(data)])
    assert (shards.root, shards.paths) == (str(data), ["hindi/a.tar", "hindi/b.tar", "odia/a.tar"])
    assert named_shards([data.as_uri()]).paths == shards.paths


def test_several_names_are_relative_to_the_nearest_folder_that_holds_them(data):
    shards = named_shards([str(data / "hindi"), str(data / "odia" / "a.tar")])
    assert (shards.root, shards.paths) == (str(data), ["hindi/a.tar", "hindi/b.tar", "odia/a.tar"])


def test_the_root_may_be_given_and_must_hold_them_all(data):
    assert named_shards([str(data / "odia")], str(data)).paths == ["odia/a.tar"]
    with pytest.raises(ValueError, match="is not below it"):
        named_shards([str(data / "odia")], str(data / "hindi"))


@pytest.mark.parametrize("name", ["empty", "missing", "missing.tar"])
def test_names_without_shards_are_errors(data, name):
    (data / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no tar shards here"):
        named_shards([str(data / name)])


def test_local_and_remote_shards_cannot_be_mixed(data):
    with pytest.raises(ValueError, match="cannot be mixed"):
        named_shards([str(data), "s3://bucket/hindi"])
    with pytest.raises(ValueError, match="cannot be mixed"):
        named_shards([str(data)], "s3://bucket")


def test_a_remote_shard_is_relative_to_its_folder_and_several_need_a_root():
    one = named_shards(["s3://bucket/hindi/a.tar"])
    assert (one.root, one.paths) == ("s3://bucket/hindi", ["a.tar"])
    two = named_shards(["s3://bucket/hindi/a.tar", "s3://bucket/odia/a.tar"], "s3://bucket/")
    assert (two.root, two.paths) == ("s3://bucket", ["hindi/a.tar", "odia/a.tar"])
    with pytest.raises(ValueError, match="--store"):
        named_shards(["s3://bucket/hindi/a.tar", "s3://bucket/odia/a.tar"])
    with pytest.raises(ValueError, match="is not below it"):
        named_shards(["s3://other/a.tar"], "s3://bucket")


def test_a_prefix_of_a_bucket_stands_for_all_tars_below_it(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for key in ("hindi/a.tar", "odia/a.tar", "odia/notes.txt"):
        s3.put(key, b"x")
    assert named_shards([s3.url]).paths == ["hindi/a.tar", "odia/a.tar"]
    assert named_shards([f"{s3.url}/odia/"], s3.url).paths == ["odia/a.tar"]
    with pytest.raises(FileNotFoundError, match="no tar shards here"):
        named_shards([f"{s3.url}/tamil"])
