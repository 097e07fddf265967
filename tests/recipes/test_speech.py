"""The speech recipe as XCodec2 expects its batches, on clips in real formats, and what bad clips lead to."""

import gc
import io
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import torch

import penstock
from penstock.feed import Feed
from penstock.media.audio.clip import EXTENSIONS
from penstock.media.audio.crops import Crops
from penstock.media.audio.features import feature_rows
from penstock.media.errors import BadMedia
from penstock.media.span import read_all
from penstock.pipelines.speech import SpeechOptions, SpeechPipeline
from penstock.readers.errors import ContentError
from penstock.recipes.speech import Speech, clip
from penstock.store.local import LocalBlob
from tests.media.audio.accuracy import EXACT, FAST, close, extracted
from tests.readers.tar.archives import write_tar

SPEECH = Path(__file__).parent.parent / "data" / "speech"
RATE = 16_000


def write_run(folder: Path, clips: Mapping[str, bytes]) -> dict[str, Any]:
    """The options of a run over one shard of files, by name, in one language; a batch is an epoch."""
    write_tar(folder / "shard.tar", clips.items())
    names = list(dict.fromkeys(name.split(".")[0] for name in clips))
    (folder / "train.tsv").write_text("".join(f"shard.tar\t{name}\tenglish\t5.0\n" for name in names))
    return {
        "recipe": "speech",
        "batch_size": len(names),
        "filelist": str(folder / "train.tsv"),
        "store": str(folder),
        "cache": {"dir": str(folder / "cache"), "size": "1GB"},
    }


def open_run(folder: Path, clips: Mapping[str, bytes], **options: Any) -> Feed:
    return penstock.open(write_run(folder, clips), **options)


def wav(sound: npt.NDArray[Any], rate: int = RATE, subtype: str = "PCM_16") -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, sound, rate, format="WAV", subtype=subtype)
    return buffer.getvalue()


def ramp(samples: int) -> npt.NDArray[np.int16]:
    """Every sample tells its own place."""
    return np.arange(samples, dtype=np.int32).astype(np.int16)


def real_clips() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(SPEECH.iterdir()) if path.stem != "stereo"}


def test_a_batch_has_waves_lengths_and_features_of_the_shapes_that_xcodec2_takes(tmp_path: Path) -> None:
    feed = open_run(tmp_path, real_clips())
    batch = feed.batch(0)
    clips = len(real_clips())
    assert batch["wav"].shape == (clips, 96_000)
    assert batch["wav"].dtype == torch.float32
    assert batch["feats"].shape == (clips, 1, 300, 160)
    assert batch["length"].shape == (clips,)
    assert sorted(batch["ids"]) == sorted(name.split(".")[0] for name in real_clips())
    for wave, length in zip(batch["wav"], batch["length"].tolist(), strict=True):
        assert 0 < length <= 96_000
        assert not wave[length:].any()


def test_features_are_those_of_the_extractor_on_the_padded_wave(tmp_path: Path) -> None:
    batch = open_run(tmp_path, real_clips()).batch(0)
    assert close(batch["feats"], extracted(batch["wav"]), **FAST)


def test_exact_features_are_closer_to_those_of_the_extractor(tmp_path: Path) -> None:
    batch = open_run(tmp_path, real_clips(), speech={"features": "exact"}).batch(0)
    assert batch["feats"].dtype == torch.float32
    assert close(batch["feats"], extracted(batch["wav"]), **EXACT)


def test_exact_features_of_a_whole_clip_are_closer_too(tmp_path: Path) -> None:
    name = "mono_c0.opus"
    clip = {name: (SPEECH / name).read_bytes()}
    batch = open_run(tmp_path, clip, speech={"crop": "full", "features": "exact"}, passes=1).batch(0)
    length = int(batch["length"][0])
    assert close(batch["feats"][:, :, : feature_rows(length)], extracted(batch["wav"][:, :length]), **EXACT)


def test_a_crop_is_a_run_of_the_clip_and_both_ends_can_be_reached(tmp_path: Path) -> None:
    size = 8
    crop = f"{1000 * size / RATE}ms"
    feed = open_run(tmp_path, {"a.wav": wav(ramp(size + 2))}, speech={"crop": crop, "features": False})
    starts = set()
    for step in range(64):
        got = np.rint(feed.batch(step)["wav"][0].numpy() * 32768).astype(int).tolist()
        assert got == list(range(got[0], got[0] + size))
        starts.add(got[0])
    assert starts == {0, 1, 2}


def test_a_short_clip_is_padded_on_the_right(tmp_path: Path) -> None:
    sound = 1 + ramp(RATE)
    batch = open_run(tmp_path, {"a.wav": wav(sound)}, speech={"crop": "2s"}).batch(0)
    assert batch["length"].tolist() == [RATE]
    assert np.array_equal(batch["wav"][0, :RATE].numpy(), sound.astype(np.float32) / 32768)
    assert not batch["wav"][0, RATE:].any()
    assert batch["feats"].shape == (1, 1, 100, 160)


def test_a_sample_has_another_crop_each_epoch_and_the_same_one_whoever_makes_it(tmp_path: Path) -> None:
    options = {**write_run(tmp_path, {"a.wav": wav(ramp(30_000))}), "speech": {"crop": "1s", "features": False}}
    feed = penstock.open(options)
    again = penstock.open(options)
    epochs = [feed.batch(epoch)["wav"] for epoch in range(6)]
    assert len({float(wave[0, 0]) for wave in epochs}) > 1
    for epoch in reversed(range(6)):
        assert torch.equal(again.batch(epoch)["wav"], epochs[epoch])


def test_plain_clips_of_a_local_folder_are_read_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = open_run(tmp_path, {"a.wav": GOOD, "b.wav": GOOD}, speech={"crop": "1s", "features": False})
    feed.batch(0)  # scans the shard

    def copies(blob: LocalBlob, buffer: memoryview, offset: int) -> None:
        raise AssertionError(f"{buffer.nbytes} bytes of {blob.path} at {offset} were copied")

    monkeypatch.setattr(LocalBlob, "readinto", copies)
    assert feed.batch(1)["length"].tolist() == [RATE, RATE]


def test_the_first_channel_counts_or_the_mean_if_asked_for(tmp_path: Path) -> None:
    stereo = np.stack([np.full(RATE, 8192), np.full(RATE, 0)], axis=1).astype(np.int16)
    first = open_run(tmp_path, {"a.wav": wav(stereo)}, speech={"crop": "1s"}).batch(0)["wav"]
    mean = open_run(tmp_path, {"a.wav": wav(stereo)}, speech={"crop": "1s", "channel": "mean"}).batch(0)["wav"]
    assert first.unique().tolist() == [0.25]
    assert mean.unique().tolist() == [0.125]


GOOD = wav(ramp(40_000))
BAD = {
    "no_audio.wav": b"this is a text about audio, and long enough to be one" * 40,
    "truncated.flac": (SPEECH / "2412-153948-0001.flac").read_bytes()[:9_000],
    "empty.wav": b"",
    "no_samples.wav": wav(np.zeros(0, dtype=np.int16)),
    "not_finite.wav": wav(np.full(40_000, np.nan, dtype=np.float32), subtype="FLOAT"),
    "no_extension_of_audio.txt": b"hello",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_clip_gives_its_place_to_another_and_is_told(tmp_path: Path, name: str) -> None:
    clips = {"good.wav": GOOD, name: BAD[name], "fine.wav": GOOD}
    feed = open_run(tmp_path, clips, speech={"crop": "1s"})
    batch = feed.batch(0)
    assert set(batch["ids"]) == {"good", "fine"}
    assert [bad.id for bad in batch["bad"]] == [name.split(".")[0]]
    assert batch["bad"][0].reason
    assert torch.isfinite(batch["wav"]).all()
    assert torch.isfinite(batch["feats"]).all()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_clip_is_a_clear_error_if_asked_for(tmp_path: Path, name: str) -> None:
    feed = open_run(tmp_path, {"good.wav": GOOD, name: BAD[name]}, speech={"crop": "1s"}, on_error="raise")
    with pytest.raises(ContentError, match=f"shard.tar:{name.split('.')[0]}"):
        feed.batch(0)


def test_a_sample_without_audio_tells_what_it_has(tmp_path: Path) -> None:
    feed = open_run(tmp_path, {"good.wav": GOOD, "notes.txt": b"hello"}, speech={"crop": "1s"})
    [bad] = feed.batch(0)["bad"]
    assert bad.reason == "has txt, but none of wav, flac, mp3, ogg, opus, original"
    assert (bad.group, bad.id) == ("shard.tar", "notes")


def test_a_sample_that_is_missing_does_not_keep_batches(tmp_path: Path) -> None:
    options = write_run(tmp_path, {"good.wav": GOOD})
    with open(tmp_path / "train.tsv", "a") as filelist:
        filelist.write("shard.tar\tgone\tenglish\t5.0\n")
    feed = penstock.open(options, speech={"crop": "1s", "features": False}, batch_size=2)
    gc.collect()
    gc.disable()
    try:
        for step in range(3):
            assert "gone" in [bad.id for bad in feed.batch(step)["bad"]]
        assert not [each for each in gc.get_objects() if type(each) is Crops]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("name", "clip"),
    [
        ("fast.wav", wav(np.sin(np.arange(400_000) / 50).astype(np.float32), rate=192_000)),
        ("wide.wav", wav(np.zeros((40_000, 8), dtype=np.int16))),
        ("misnamed.mp3", (SPEECH / "2412-153948-0001.flac").read_bytes()),
    ],
)
def test_unusual_clips_are_read_all_the_same(tmp_path: Path, name: str, clip: bytes) -> None:
    batch = open_run(tmp_path, {name: clip}, speech={"crop": "1s"}).batch(0)
    assert batch["bad"] == []
    assert batch["length"].tolist() == [RATE]


def test_a_clip_that_is_bad_in_a_finite_run_leaves_a_silent_row_that_is_marked(tmp_path: Path) -> None:
    clips = {"good.wav": GOOD, "bad.wav": BAD["not_finite.wav"], "fine.wav": GOOD}
    batch = open_run(tmp_path, clips, speech={"crop": "1s"}, passes=1).batch(0)
    row = batch["ids"].index("")
    assert batch["valid"].tolist() == [place != row for place in range(3)]
    assert not batch["wav"][row].any()


@pytest.mark.parametrize("crop", ["1s", "full"])
def test_a_batch_whose_clips_are_all_bad_in_a_finite_run_is_silence(tmp_path: Path, crop: str) -> None:
    clips = {f"{number}.wav": BAD["not_finite.wav"] for number in range(3)}
    batch = open_run(tmp_path, clips, speech={"crop": crop}, passes=1, max_bad=1.0).batch(0)
    assert batch["valid"].tolist() == [False] * 3
    assert batch["wav"].shape == (3, RATE) and not batch["wav"].any() and not batch["length"].any()
    assert [bad.outcome for bad in batch["bad"]] == ["empty"] * 3


def test_threads_and_processes_make_the_same_tensors(tmp_path: Path) -> None:
    feed = open_run(tmp_path, real_clips(), batch_size=3, speech={"crop": "1s"})
    expected = [feed.batch(step) for step in range(6)]
    for options in ({"threads": 3}, {"workers": 2}):
        with feed.loader(**options) as loader:
            for step in range(6):
                batch = next(loader)
                for key in ("wav", "length", "feats"):
                    assert torch.equal(batch[key], expected[step][key])


def test_a_worker_that_computes_no_features_imports_neither_torch_nor_pandas(tmp_path: Path) -> None:
    """Each would cost every worker process more memory than the rest of it together."""
    options = write_run(tmp_path, {"a.wav": wav(ramp(RATE)), "b.wav": wav(ramp(RATE), subtype="PCM_24")})
    penstock.open(options).batch(0)  # finds out where the clips are, for all processes
    script = (
        "import sys, penstock\nfrom penstock.feed.steps import Steps\n"
        f"walk = penstock.open({options!r}, speech={{'features': False}}).walk(Steps(0, 1))\n"
        "wav = walk.units(0)[0].fields['speech']['wav']\n"
        "print(wav.shape, [name for name in ('torch', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[0] == "(2, 96000) []"


def test_the_audio_of_a_record_is_its_first_audio_file_whatever_else_is_read() -> None:
    sound: Any = object()
    other: Any = object()
    assert clip({"txt": other, "flac": sound, "wav": other}) is sound
    with pytest.raises(BadMedia, match="has txt, json, and no audio file"):
        clip({"txt": other, "json": other})


@dataclass(frozen=True)
class _Transcribed:
    """Work of the recipe below, as docs/extending.md proposes it."""

    crops: Crops
    texts: list[str]


class TranscribedSpeech(Speech):
    """Adds a field from the waveform and one from another file of the record."""

    needs = (*EXTENSIONS, "txt")

    def start(self, size: int) -> Any:
        return _Transcribed(super().start(size), [""] * size)

    def fill(self, work: Any, records: Any) -> list[penstock.Bad]:
        def make(row: int, _: penstock.Item, record: Any) -> None:
            try:
                work.texts[row] = read_all(record["txt"]).decode() if "txt" in record else ""
            except UnicodeDecodeError:
                raise BadMedia("the transcript is not UTF-8") from None

        bad = penstock.each(records, make)
        unread = {sample.index for sample in bad}
        bad += super().fill(work.crops, {row: record for row, record in records.items() if row not in unread})
        for sample in bad:
            work.texts[sample.index] = ""
        return bad

    def finish(self, work: Any) -> dict[str, Any]:
        fields = super().finish(work.crops)
        return {**fields, "peak": np.abs(fields["wav"]).max(axis=1), "texts": work.texts}


class TranscribedPipeline(SpeechPipeline):
    def recipe(self, options: SpeechOptions) -> TranscribedSpeech:
        return TranscribedSpeech(crop=1.0, features=options.features)


def open_transcribed(folder: Path, files: Mapping[str, bytes], **options: Any) -> Feed:
    run = write_run(folder, files) | {"recipe": "transcribed", "transcribed": {"features": False}, **options}
    return penstock.open(run, pipelines={"transcribed": TranscribedPipeline()})


def test_a_recipe_of_your_own_adds_fields_to_the_speech_batch(tmp_path: Path) -> None:
    batch = open_transcribed(tmp_path, {"a.wav": wav(ramp(100)), "a.txt": b"Hello.", "b.wav": wav(ramp(200))}).batch(0)
    assert dict(zip(batch["ids"], batch["texts"], strict=True)) == {"a": "Hello.", "b": ""}
    assert sorted((batch["peak"] * 32_768).tolist()) == [99, 199]


@pytest.mark.parametrize(
    "bad", [{"b.wav": b"RIFF", "b.txt": b"Not heard."}, {"b.wav": wav(ramp(200)), "b.txt": b"\xff"}]
)
def test_a_field_of_a_bad_clip_is_that_of_padding_in_a_finite_run(tmp_path: Path, bad: dict[str, bytes]) -> None:
    files = {"a.wav": wav(ramp(100)), "a.txt": b"Hello.", **bad}
    batch = open_transcribed(tmp_path, files, passes=1).batch(0)
    assert sorted(zip(batch["valid"].tolist(), batch["texts"], strict=True)) == [(False, ""), (True, "Hello.")]
