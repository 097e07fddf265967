"""A filelist compiles to what it says, once, however many ask."""

import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.manifest.errors import ManifestError
from penstock.readers.tar.filelist import compile_filelist, open_filelist
from penstock.readers.tar.manifest import TarManifest
from tests.same_stat import overwrite_keeping_stat

NAMES = st.text(st.characters(exclude_characters="\t\r\n\0", exclude_categories=("Cs",)), min_size=1, max_size=12)
CLIPS = st.dictionaries(
    st.tuples(st.sampled_from(["b/0.tar", "a/1.tar", "a:b.tar", 'it"s #1.tar']), NAMES),
    st.tuples(st.sampled_from(["english", "ಕನ್ನಡ", "as sa"]), st.integers(1, 86_400_000_000)),
    min_size=1,
    max_size=40,
)
Clips = dict[tuple[str, str], tuple[str, int]]


def write(path: Path, clips: Clips, end: str = "\n") -> Path:
    lines = [f"{s}\t{i}\t{language}\t{micros / 1e6:.6f}{end}" for (s, i), (language, micros) in clips.items()]
    path.write_text("".join(lines), newline="")
    return path


def identity(manifest: TarManifest) -> list[tuple[str, str]]:
    """What the order of a run follows from, source by source."""
    return list(zip(manifest.sources, manifest.fingerprints, strict=True))


def contents(manifest: TarManifest) -> Clips:
    """Back from the manifest to what was listed, in the manifest's order."""
    found: Clips = {}
    for row in range(len(manifest)):
        source, _, _ = manifest.locate(row)
        shard = manifest.shard(int(manifest.shard_of(row))).path
        found[shard, manifest.ids(row)[0]] = (manifest.sources[int(source)], round(float(manifest.seconds(row)) * 1e6))
    return found


@settings(max_examples=60, deadline=None)
@given(CLIPS, st.sampled_from(["\n", "\r\n"]))
def test_what_is_listed_is_what_is_there_in_the_promised_order(
    tmp_path_factory: pytest.TempPathFactory, clips: Clips, end: str
) -> None:
    tmp_path = tmp_path_factory.mktemp("filelist")
    manifest = compile_filelist(write(tmp_path / "train.tsv", clips, end), tmp_path / "out")
    places = {clip: place for place, clip in enumerate(clips)}
    order = sorted(clips, key=lambda clip: (clips[clip][0], clip[0], places[clip]))
    found = contents(manifest)
    assert list(found) == order
    for clip in clips:
        assert found[clip][0] == clips[clip][0]
        assert found[clip][1] == pytest.approx(clips[clip][1], rel=1e-6)
    totals = {language: 0 for language, _ in clips.values()}
    for language, micros in clips.values():
        totals[language] += micros
    assert dict(zip(manifest.sources, manifest.amounts["hours"], strict=True)) == totals


@settings(max_examples=30, deadline=None)
@given(CLIPS, st.randoms())
def test_a_shuffled_filelist_with_the_same_order_in_each_shard_is_the_same_manifest(
    tmp_path_factory: pytest.TempPathFactory, clips: Clips, rng: random.Random
) -> None:
    tmp_path = tmp_path_factory.mktemp("filelist")
    by_shard: dict[str, list[tuple[str, str]]] = {}
    for clip in clips:
        by_shard.setdefault(clip[0], []).append(clip)
    shuffled: Clips = {}
    while any(by_shard.values()):
        clip = by_shard[rng.choice([shard for shard, left in by_shard.items() if left])].pop(0)
        shuffled[clip] = clips[clip]
    first = compile_filelist(write(tmp_path / "a.tsv", clips), tmp_path / "a")
    second = compile_filelist(write(tmp_path / "b.tsv", shuffled), tmp_path / "b")
    assert identity(first) == identity(second)
    assert contents(first) == contents(second)
    assert list(contents(first)) == list(contents(second))


def test_the_identity_is_of_the_order_and_of_nothing_else(tmp_path: Path) -> None:
    def listed(*lines: str) -> list[tuple[str, str]]:
        path = tmp_path / "train.tsv"
        path.write_text("\n".join(lines))
        return identity(compile_filelist(path, tmp_path / "out"))

    base = listed("a.tar\tone\ten\t1", "a.tar\ttwo\ten\t1")
    assert listed("a.tar\tone\ten\t2", "a.tar\ttwo\ten\t1") == base, "seconds count through the mixture alone"
    assert listed("a.tar\ttwo\ten\t1", "a.tar\tone\ten\t1") != base, "the order in a shard"
    assert listed("b.tar\tone\ten\t1", "b.tar\ttwo\ten\t1") != base, "the shard's name"
    assert listed("a.tar\tone\tde\t1", "a.tar\ttwo\tde\t1") != base, "the source's name"
    assert listed("a.tar\ton\ten\t1", "a.tar\tetwo\ten\t1") != base, "where one id ends and the next begins"
    assert listed("a.tar\tone\ten\t1") != base, "how many there are"


def test_the_fingerprint_of_a_source_is_of_its_own_clips_alone(tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("a.tar\tone\ten\t1\nb.tar\ttwo\ten\t1\n")
    (tmp_path / "two.tsv").write_text("0.tar\tx\tde\t1\na.tar\ty\tde\t1\na.tar\tone\ten\t1\nb.tar\ttwo\ten\t1\n")
    alone = compile_filelist(tmp_path / "one.tsv", tmp_path / "one")
    beside_another = compile_filelist(tmp_path / "two.tsv", tmp_path / "two")
    assert identity(alone) == identity(beside_another)[1:]


def test_fingerprints_are_a_promise(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("b.tar\tx\ten\t1\na.tar\tx\tde\t2\na.tar\ty\ten\t3\n")
    manifest = compile_filelist(tmp_path / "train.tsv", tmp_path / "out")
    assert identity(manifest) == [("de", "29c112dcee3375ba"), ("en", "4b6cd150dc427034")]


def test_a_compiled_filelist_is_used_again_until_the_file_changes(tmp_path: Path) -> None:
    filelist = tmp_path / "train.tsv"
    filelist.write_text("a.tar\tone\ten\t1\n")
    first = open_filelist(filelist, tmp_path / "compiled")
    made = (first.path / "items.arrow").stat()
    again = open_filelist(filelist, tmp_path / "compiled")
    assert (again.path / "items.arrow").stat().st_ino == made.st_ino
    filelist.write_text("a.tar\ttwo\ten\t1\n")
    os.utime(filelist, ns=(0, 12345))
    assert open_filelist(filelist, tmp_path / "compiled").ids(0) == ["two"]


def test_a_filelist_made_anew_with_the_same_inode_size_and_mtime_is_compiled_anew(tmp_path: Path) -> None:
    filelist = tmp_path / "train.tsv"
    filelist.write_text("a.tar\tone\ten\t1\n")
    first = open_filelist(filelist, tmp_path / "compiled")
    filelist.chmod(0o600)
    assert open_filelist(filelist, tmp_path / "compiled").path == first.path
    overwrite_keeping_stat(filelist, b"a.tar\ttwo\ten\t1\n")
    assert open_filelist(filelist, tmp_path / "compiled").ids(0) == ["two"]


def test_an_unknown_shard_is_told_once_however_many_lines_name_it(tmp_path: Path) -> None:
    filelist = tmp_path / "train.tsv"
    lines = [f"en/{shard}.tar\t{clip}\ten\t1\n" for clip in range(30) for shard in "abc"]
    filelist.write_text("".join(lines))
    with pytest.raises(ManifestError) as caught:
        open_filelist(filelist, tmp_path / "compiled", known_shards=lambda: ["en/a.tar"])
    assert caught.value.counts == {"unknown shard": 2}
    assert list(map(str, caught.value.problems)) == [
        f"train.tsv:{line}: there is no shard en/{shard}.tar (30 lines name it, this is the first); "
        "the nearest is en/a.tar"
        for line, shard in ((2, "b"), (3, "c"))
    ]


def test_unknown_shards_are_told_when_a_filelist_is_compiled_and_asked_for_only_then(tmp_path: Path) -> None:
    filelist = tmp_path / "train.tsv"
    filelist.write_text("en/a.tar\tone\ten\t1\n")
    asked = []

    def known(*paths: str) -> Callable[[], list[str]]:
        return lambda: asked.append(paths) or list(paths)

    with pytest.raises(ManifestError, match=r"train.tsv:1: there is no shard en/a.tar; the nearest is en/b.tar"):
        open_filelist(filelist, tmp_path / "compiled", known_shards=known("en/b.tar"))
    open_filelist(filelist, tmp_path / "compiled", known_shards=known("en/a.tar"))
    open_filelist(filelist, tmp_path / "compiled", known_shards=known())
    assert asked == [("en/b.tar",), ("en/a.tar",)]


def test_a_folder_that_is_no_manifest_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a.tar\tone\ten\t1\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(ManifestError, match="not a compiled manifest"):
        compile_filelist(tmp_path / "train.tsv", tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").read_text() == "precious"


OPEN = textwrap.dedent(
    """
    import sys
    from penstock.readers.tar import filelist
    print("ready", flush=True)
    sys.stdin.readline()
    write_files = filelist.write_files
    written = []
    filelist.write_files = lambda *given: written.append(write_files(*given))
    manifest = filelist.open_filelist(sys.argv[1], sys.argv[2])
    print(*manifest.fingerprints, len(manifest), bool(written))
    """
)


def test_processes_that_open_a_filelist_at_once_compile_it_once(tmp_path: Path) -> None:
    filelist = tmp_path / "train.tsv"
    filelist.write_text("".join(f"{n % 50}.tar\t{n}\ten\t1\n" for n in range(300_000)))
    command = [sys.executable, "-c", OPEN, str(filelist), str(tmp_path / "compiled")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in processes:
        assert process.stdout and process.stdout.readline() == "ready\n"
    answers = []
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        answers.append(process.communicate()[0].split())
    assert len({(fingerprint, count) for fingerprint, count, _ in answers}) == 1
    assert sorted(compiled for _, _, compiled in answers) == ["False", "False", "False", "True"]
