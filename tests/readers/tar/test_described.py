"""Manifests of NeMo's tarred datasets and of Lhotse Shar, as their own tools write them, and what may be wrong."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.manifest.errors import ManifestError
from penstock.readers.sidecars import TextPlace
from penstock.readers.tar.described import read_nemo, read_shar
from penstock.readers.tar.index import TarIndexing
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.writer import ItemTable
from penstock.runtime.engines.engine import ThreadEngine
from penstock.store.local import LocalStore
from tests.readers.tar.archives import write_tar
from tests.recipes.test_speech import RATE, ramp, wav

TARS = ["audio_0.tar", "audio_1.tar"]


def lines(*rows: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def index_rows(store: LocalStore, rows: ItemTable, out: Path) -> TarManifest:
    indexing = TarIndexing(store, [], out, rows=rows)
    indexing.run(ThreadEngine(1))
    return indexing.finish()


def nemo_rows() -> list[dict[str, Any]]:
    """As ``convert_to_tarred_audio_dataset.py`` writes them, without slicing: b is one file of three segments."""
    return [
        {"audio_filepath": "data_a.wav", "duration": 0.5, "text": "alpha", "lang": "en", "shard_id": 0},
        {"audio_filepath": "data_b.wav", "duration": 0.25, "offset": 0.0, "text": "beta", "lang": "de", "shard_id": 1},
        {
            "audio_filepath": "data_b-sub1.wav",
            "duration": 0.5,
            "offset": 0.25,
            "text": "c",
            "lang": "de",
            "shard_id": 1,
        },
        {
            "audio_filepath": "data_b-sub2.wav",
            "duration": 9.0,
            "offset": 0.75,
            "text": "d",
            "lang": "de",
            "shard_id": 1,
        },
    ]


@pytest.fixture
def nemo(tmp_path: Path) -> Path:
    write_tar(tmp_path / "audio_0.tar", [("data_a.wav", wav(ramp(RATE // 2)))])
    write_tar(tmp_path / "audio_1.tar", [("data_b.wav", wav(ramp(RATE)))])
    (tmp_path / "tarred_audio_manifest.json").write_text(lines(*nemo_rows()))
    return tmp_path


def trained(folder: Path, manifest: Path, items: int) -> dict[str, tuple[str, np.ndarray[Any, Any]]]:
    """Text and samples of each item of one epoch, by id."""
    feed = penstock.speech(
        {"manifest": str(manifest), "store": str(folder), "batch_size": items, "mixture": {"weights": "items"}},
        crop="full",
        features=False,
        text_field="text",
        passes=1,
    )
    batch = feed.batch(0)
    assert not batch["bad"]
    sounds = [
        np.rint(sound[:length].numpy() * 32768) for sound, length in zip(batch["wav"], batch["length"], strict=True)
    ]
    return dict(zip(batch["ids"], zip(batch["text"], sounds, strict=True), strict=True))


def test_rows_of_nemo_are_items_also_segments_of_one_file(nemo: Path) -> None:
    rows, _ = read_nemo([nemo / "tarred_audio_manifest.json"], TARS)
    manifest = index_rows(LocalStore(nemo), rows, nemo / "manifest")
    assert manifest.sources == ("de", "en")
    assert manifest.items == (3, 1)
    found = trained(nemo, nemo / "manifest", 4)
    whole = ramp(RATE)
    expected = {
        "data_a": ("alpha", ramp(RATE // 2)),
        "data_b": ("beta", whole[:4000]),
        "data_b-sub1": ("c", whole[4000:12000]),
        "data_b-sub2": ("d", whole[12000:]),
    }
    assert found.keys() == expected.keys()
    for name, (text, sound) in expected.items():
        assert found[name][0] == text
        assert np.array_equal(found[name][1], sound)


def test_files_of_nemo_may_lie_in_folders_of_their_shard(nemo: Path) -> None:
    whole = {name: sound.tolist() for name, (_, sound) in indexed_and_trained(nemo).items()}
    write_tar(nemo / "audio_0.tar", [("./clips/en/data_a.wav", wav(ramp(RATE // 2)))])
    write_tar(nemo / "audio_1.tar", [("clips/data_b.wav", wav(ramp(RATE)))])
    assert {name: sound.tolist() for name, (_, sound) in indexed_and_trained(nemo).items()} == whole
    write_tar(nemo / "audio_1.tar", [("x/data_b.wav", wav(ramp(RATE))), ("y/data_b.wav", wav(ramp(RATE)))])
    with pytest.raises(ManifestError, match="data_b: is there as x/data_b and as y/data_b"):
        indexed_and_trained(nemo)


def indexed_and_trained(nemo: Path) -> dict[str, tuple[str, np.ndarray[Any, Any]]]:
    rows, _ = read_nemo([nemo / "tarred_audio_manifest.json"], TARS)
    index_rows(LocalStore(nemo), rows, nemo / "manifest")
    return trained(nemo, nemo / "manifest", 4)


def test_segments_that_were_cut_into_files_are_those_files(nemo: Path) -> None:
    """As with ``--slice_with_offset``: rows of a recording have no ``offset``, and files of their own."""
    write_tar(nemo / "audio_1.tar", [("b.wav", wav(ramp(4000))), ("b-sub1.wav", wav(1 + ramp(8000)))])
    rows = [
        {"audio_filepath": "b.wav", "duration": 0.25, "text": "b", "source_audio_offset": 0.0, "shard_id": 1},
        {"audio_filepath": "b-sub1.wav", "duration": 0.5, "text": "c", "source_audio_offset": 0.25, "shard_id": 1},
    ]
    (nemo / "m.json").write_text(lines(*rows))
    index_rows(LocalStore(nemo), read_nemo([nemo / "m.json"], TARS).rows, nemo / "manifest")
    found = trained(nemo, nemo / "manifest", 2)
    assert np.array_equal(found["b"][1], ramp(4000))
    assert np.array_equal(found["b-sub1"][1], 1 + ramp(8000))


def test_crops_of_segments_are_refused_with_what_to_set(nemo: Path) -> None:
    rows, _ = read_nemo([nemo / "tarred_audio_manifest.json"], TARS)
    index_rows(LocalStore(nemo), rows, nemo / "manifest")
    keys = {"manifest": str(nemo / "manifest"), "store": str(nemo), "batch_size": 4, "on_error": "raise"}
    with pytest.raises(penstock.ContentError, match=r"is a segment of a recording, and .*; set crop: full"):
        penstock.speech(keys, passes=1).batch(0)


def test_manifests_of_single_shards_have_the_number_of_their_shard(nemo: Path) -> None:
    for number in range(2):
        rows = [{**row, "shard_id": None} for row in nemo_rows() if row["shard_id"] == number]
        own = [{key: value for key, value in row.items() if value is not None} for row in rows]
        (nemo / f"manifest_{number}.json").write_text(lines(*own))
    several, _ = read_nemo([nemo / "manifest_0.json", nemo / "manifest_1.json"], TARS)
    one, _ = read_nemo([nemo / "tarred_audio_manifest.json"], TARS)
    assert several.ids == one.ids
    assert several.shard.tolist() == one.shard.tolist()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{", "m.json:1: is not JSON"),
        ("[1]", "m.json:1: is not a JSON object"),
        ('{"duration": 1, "shard_id": 0}', "m.json:1: has no audio_filepath"),
        ('{"audio_filepath": "a.wav", "shard_id": 0}', "its duration is None, not a number of seconds"),
        ('{"audio_filepath": "a.wav", "duration": 0, "shard_id": 0}', "its duration is 0, not a number of seconds"),
        ('{"audio_filepath": "a.wav", "duration": NaN, "shard_id": 0}', "its duration is nan, not a number of seconds"),
        ('{"audio_filepath": "a.wav", "duration": 1, "offset": "x", "shard_id": 0}', "its offset is 'x'"),
        ('{"audio_filepath": "a.wav", "duration": 1, "shard_id": 7}', "is in shard 7, and no tar shard has this"),
        ('{"audio_filepath": "a.wav", "duration": 1}', "is in shard None, and no tar shard has this number"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, row: str, reason: str) -> None:
    (tmp_path / "m.json").write_text(f"{row}\n")
    with pytest.raises(ManifestError) as caught:
        read_nemo([tmp_path / "m.json"], TARS)
    assert reason in str(caught.value)


def test_a_clip_that_is_not_in_its_shard_is_named(nemo: Path) -> None:
    row = {"audio_filepath": "gone.wav", "duration": 1, "shard_id": 0}
    (nemo / "m.json").write_text(lines(row))
    with pytest.raises(ManifestError, match=r"audio_0\.tar:gone"):
        index_rows(LocalStore(nemo), read_nemo([nemo / "m.json"], TARS).rows, nemo / "manifest")


def cut(name: str, seconds: float, *texts: str, **more: Any) -> dict[str, Any]:
    spoken = [{"id": f"{name}-{at}", "text": text, "speaker": "s1", "language": "en"} for at, text in enumerate(texts)]
    return {"id": name, "start": 0, "duration": seconds, "supervisions": spoken, "type": "MonoCut", **more}


def write_shar(folder: Path) -> list[str]:
    folder.mkdir()
    files = io.BytesIO()
    with gzip.open(files, "wt") as out:
        out.write(lines(cut("a", 0.5, "alpha", "and more"), cut("b/c", 0.25, custom={"snr": 12})))
    (folder / "cuts.000000.jsonl.gz").write_bytes(files.getvalue())
    recording = b'{"id": "a", "sampling_rate": 16000}'
    members = [("a.wav", wav(ramp(RATE // 2))), ("a.json", recording), ("b/c.wav", wav(ramp(RATE // 4)))]
    write_tar(folder / "recording.000000.tar", [*members, ("b/c.json", recording)])
    return ["cuts.000000.jsonl.gz", "recording.000000.tar"]


def test_cuts_of_shar_are_items_with_the_texts_of_their_supervisions(tmp_path: Path) -> None:
    folder = tmp_path / "shar"
    paths = write_shar(folder)
    manifest = index_rows(LocalStore(folder), read_shar(LocalStore(folder), paths).rows, tmp_path / "manifest")
    assert manifest.sources == ("default", "en")
    fields = dict(zip(manifest.ids(range(2)), manifest.fields(range(2)) or [], strict=True))
    assert json.loads(fields["a"]) == {"speaker": "s1", "language": "en", "text": "alpha and more", "duration": 0.5}
    assert json.loads(fields["b/c"]) == {"snr": 12, "duration": 0.25}


def test_ids_of_cuts_may_have_dots(tmp_path: Path) -> None:
    """As those of Lhotse's ``perturb_speed``: ``a_sp0.9`` and ``a_sp1.1`` are two cuts."""
    names = ("a_sp0.9", "a_sp1.1", "ES2002a.Mix-Headset-3")
    data = gzip.compress(lines(*(cut(name, 0.1 * at, f"text {name}") for at, name in enumerate(names, 1))).encode())
    (tmp_path / "cuts.000000.jsonl.gz").write_bytes(data)
    sounds = [(f"{name}.wav", wav(ramp(at * 1600))) for at, name in enumerate(names, 1)]
    members = [each for sound in sounds for each in (sound, (sound[0].replace(".wav", ".json"), b"{}"))]
    write_tar(tmp_path / "recording.000000.tar", members)
    store = LocalStore(tmp_path)
    index_rows(store, read_shar(store, ["recording.000000.tar"]).rows, tmp_path / "manifest")
    found = trained(tmp_path, tmp_path / "manifest", 3)
    assert {name: (text, len(sound)) for name, (text, sound) in found.items()} == {
        name: (f"text {name}", at * 1600) for at, name in enumerate(names, 1)
    }


def test_recordings_of_shar_may_be_named_original(tmp_path: Path) -> None:
    """As Lhotse's ``SharWriter`` names them with ``recording: original``, whatever their format is."""
    (tmp_path / "cuts.000000.jsonl.gz").write_bytes(gzip.compress(lines(cut("a", 0.1, "alpha")).encode()))
    write_tar(tmp_path / "recording.000000.tar", [("a.original", wav(ramp(1600))), ("a.json", b"{}")])
    store = LocalStore(tmp_path)
    index_rows(store, read_shar(store, ["recording.000000.tar"]).rows, tmp_path / "manifest")
    [(text, sound)] = trained(tmp_path, tmp_path / "manifest", 1).values()
    assert (text, len(sound)) == ("alpha", 1600)


def test_rows_and_cuts_without_a_text_are_left_out_and_counted(tmp_path: Path, nemo: Path) -> None:
    (nemo / "m.json").write_text(
        lines(*nemo_rows(), {"audio_filepath": "e.wav", "duration": 1, "text": " ", "shard_id": 0})
    )
    rows, without = read_nemo([nemo / "m.json"], TARS, "text")
    assert (len(rows.ids), without) == (4, 1)
    paths = write_shar(tmp_path / "shar")
    cuts, without = read_shar(LocalStore(tmp_path / "shar"), paths, "text")
    assert (cuts.ids.to_pylist(), without) == (["a"], 1)


def test_shar_without_its_parts_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "shar"
    store = LocalStore(folder)
    cuts, tar = write_shar(folder)
    with pytest.raises(ManifestError, match=r"there is no recording\*\.tar; name the folder of the Shar data"):
        read_shar(store, ["other.tar"])
    write_tar(folder / "recording.000001.tar", [])
    with pytest.raises(ManifestError, match=r"recording\.000001\.tar: there is no cuts\.000001\.jsonl\.gz beside it"):
        read_shar(store, [tar, "recording.000001.tar"])
    (folder / cuts).write_bytes((folder / cuts).read_bytes()[:-9])
    with pytest.raises(ManifestError, match="is not complete gzip data"):
        read_shar(store, [tar])


def test_an_index_of_rows_goes_on_where_it_was_stopped(nemo: Path) -> None:
    rows, _ = read_nemo([nemo / "tarred_audio_manifest.json"], TARS)
    first = TarIndexing(LocalStore(nemo), TARS, nemo / "manifest", rows=rows)
    [done, left] = first.tasks()
    first.keep(done, first.make(done))
    assert TarIndexing(LocalStore(nemo), TARS, nemo / "manifest", rows=rows).tasks() == [left]


def test_rows_of_which_none_has_a_text_are_an_error_that_says_where_texts_are(nemo: Path) -> None:
    with pytest.raises(ManifestError, match="none of its 4 clips has a text; --text takes it from ID"):
        read_nemo([nemo / "tarred_audio_manifest.json"], TARS, "transcript")


def test_clips_of_which_none_has_a_text_are_an_error_that_says_where_texts_are(nemo: Path) -> None:
    indexing = TarIndexing(LocalStore(nemo), TARS, nemo / "manifest", text=TextPlace("transcript"))
    indexing.run(ThreadEngine(1))
    with pytest.raises(ManifestError, match="none of its 2 clips has a text"):
        indexing.finish()
