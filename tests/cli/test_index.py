"""``penstock index``: from shards to a manifest that a run can go on with."""

from pathlib import Path

import pytest
import yaml

import penstock
from penstock.readers.tar.manifest import TarManifest
from tests.cli.commands import complaint, config_of, run
from tests.readers.tar.archives import write_tar
from tests.shards import content, damage, write_shard


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return config_of(tmp_path)


def with_manifest(config: Path, manifest: Path) -> Path:
    """The same run over an indexed manifest."""
    options = {key: value for key, value in yaml.safe_load(config.read_text()).items() if key != "filelist"}
    path = config.with_name("indexed.yaml")
    path.write_text(yaml.safe_dump({**options, "manifest": str(manifest)}))
    return path


def test_a_run_over_a_filelist_goes_on_with_its_indexed_manifest(config: Path, tmp_path: Path) -> None:
    result = run("index", tmp_path, "-o", tmp_path / "index", "--filelist", tmp_path / "train.tsv")
    assert result.exit_code == 0, result.output
    assert "36 items in 8 shards, 3 sources" in result.stdout
    feed = penstock.open(with_manifest(config, tmp_path / "index"))
    before = penstock.open(config)
    assert feed.resume(before.state(10)) == 10
    for step in (0, 10, 999):
        assert feed.batch(step)["records"] == before.batch(step)["records"]
    damage(tmp_path / "bengali-0.tar", content("bengali-0.tar", "bengali_0_1"))
    assert {one.id for step in range(10) for one in feed.batch(step)["bad"]} == {"bengali_0_1"}


def test_without_a_filelist_every_sample_is_there_by_folder(tmp_path: Path) -> None:
    for language in ("hindi", "odia"):
        (tmp_path / "data" / language).mkdir(parents=True)
        for number in range(2):
            names = [f"{language}_{number}_{place}" for place in range(3)]
            write_shard(tmp_path / "data" / language / f"{number}.tar", {name: name.encode() for name in names})
    result = run("index", tmp_path / "data", "-o", tmp_path / "index")
    assert result.exit_code == 0, result.output
    manifest = TarManifest(tmp_path / "index")
    assert (manifest.sources, manifest.items) == (("hindi", "odia"), (6, 6))
    feed = penstock.open(
        manifest=tmp_path / "index", store=str(tmp_path / "data"), global_batch_size=12, mixture={"weights": "items"}
    )
    batch = feed.batch(0)
    assert len(set(batch["ids"])) == 12
    assert [record["txt"].decode() for record in batch["records"]] == batch["ids"]


@pytest.mark.parametrize("option", [["--text"], ["--text-field", "said"]])
def test_clips_without_a_text_are_left_out_and_counted(tmp_path: Path, option: list[str]) -> None:
    files = [("a.wav", b"."), ("a.txt", b"one"), ("a.json", b'{"said": "one"}'), ("b.wav", b"."), ("b.json", b"{}")]
    write_tar(tmp_path / "0.tar", [*files, ("c.wav", b"."), ("c.txt", b"\xff"), ("c.json", b'{"said": ""}')])
    for _ in range(2):  # the second time from what was kept of the shard
        result = run("index", tmp_path / "0.tar", "-o", tmp_path / "index", *option)
        assert result.exit_code == 0, result.output
        assert "2 clips without a text left out" in result.stdout
        assert TarManifest(tmp_path / "index").ids([0]) == ["a"]
        assert TarManifest(tmp_path / "index").items == (1,)


def test_a_clip_of_unknown_duration_is_named(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", [("a.wav", b"."), ("a.json", b'{"duration": 1}'), ("b.wav", b".")])
    result = run("index", tmp_path / "0.tar", "-o", tmp_path / "index")
    assert "1 clip of unknown duration, such as 0.tar:b" in " ".join(result.stdout.split())


def test_an_index_of_clips_that_all_lack_a_text_says_so(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", [("a.wav", b"."), ("b.wav", b".")])
    result = run("index", tmp_path / "0.tar", "-o", tmp_path / "index", "--text")
    assert result.exit_code == 2 and "none of its 2 clips has a text; --text takes it from ID.txt" in result.stderr
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "--text-field", "said"], "--text, --text-field: give one of them"),
        (["--shar", "--filelist", "train.tsv"], "--filelist, --shar: give one of them"),
        (["--text", "--filelist", "train.tsv"], "a filelist names the clips; leave those without a text out of it"),
        (["--text", "--shar"], "--text: texts are in the manifest, not in files; write --text-field text"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path: Path, options: list[str], message: str) -> None:
    write_tar(tmp_path / "0.tar", [("a.wav", b".")])
    result = run("index", tmp_path / "0.tar", "-o", tmp_path / "index", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_single_shards_are_relative_to_the_folder_that_holds_them_or_to_the_store(config: Path, tmp_path: Path) -> None:
    shards = [tmp_path / "bengali-0.tar", tmp_path / "gujarati-1.tar"]
    assert run("index", *shards, "-o", tmp_path / "near").exit_code == 0
    assert TarManifest(tmp_path / "near").shard_paths() == ["bengali-0.tar", "gujarati-1.tar"]
    assert run("index", *shards, "-o", tmp_path / "far", "--store", tmp_path.parent).exit_code == 0
    assert TarManifest(tmp_path / "far").shard_paths() == [f"{tmp_path.name}/{shard.name}" for shard in shards]


def test_what_cannot_be_indexed_is_told_and_leaves_nothing(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"
    (tmp_path / "empty").mkdir()
    assert complaint(run("index", tmp_path / "empty", "-o", out)) == f"{tmp_path / 'empty'}: no tar shards here"
    assert "no tar shards here" in complaint(run("index", tmp_path / "missing.tar", "-o", out))
    assert "is not below it" in complaint(run("index", tmp_path, "-o", out, "--store", tmp_path / "empty"))
    (tmp_path / "bengali-0.tar").write_bytes(b"no tar" * 1000)
    (tmp_path / "gujarati-1.tar").write_bytes((tmp_path / "gujarati-1.tar").read_bytes()[:700])
    result = run("index", tmp_path, "-o", out)
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert "bengali-0.tar" in result.stderr and "gujarati-1.tar" in result.stderr, "all problems at once"
    assert not out.exists()


def test_a_second_missing_shard_is_told_as_the_first_is(config: Path, tmp_path: Path) -> None:
    result = run("index", tmp_path / "bengali-0.tar", tmp_path / "nothing.tar", "-o", tmp_path / "index")
    assert result.exit_code == 2 and "nothing.tar" in result.stderr
