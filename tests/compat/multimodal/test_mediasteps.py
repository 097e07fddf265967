"""The helpers of the document: called for what records name, with the arguments of the document, and overridden."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from penstock.compat.multimodal import TrueStreamingDataset
from penstock.compat.multimodal.mediasteps import VideoFile
from tests.compat.multimodal.made import MEDIA, as_it_is, entry, opened, write

RECORD = {
    "text": "all",
    "image": str(MEDIA / "1.jpg"),
    "video": str(MEDIA / "3.mp4"),
    "audio": str(MEDIA / "3.flac"),
}
OPTIONS: dict[str, Any] = {
    "max_per_epoch": 1,
    "sample_repeat": 1,
    "batch_size": 1,
    "image_size": 8,
    "video_size": 8,
    "max_video_frames": 3,
    "use_raw_waveform": False,
}


class OtherImage(TrueStreamingDataset):
    def _load_image(self, path: str) -> Any:
        return super()._load_image(path).transpose(Image.Transpose.FLIP_LEFT_RIGHT)


class OtherVideo(TrueStreamingDataset):
    def _load_video(self, path: str) -> Any:
        return list(super()._load_video(path))[::-1]


class OtherFrames(TrueStreamingDataset):
    def _sample_frames(self, video: Any, max_frames: int) -> Any:
        return video[: max_frames - 1]


class OtherSound(TrueStreamingDataset):
    def _load_audio(self, path: str) -> tuple[Any, int]:
        waveform, rate = super()._load_audio(path)
        return torch.stack([waveform, waveform]), rate * 2  # stereo, at another rate


class OtherMel(TrueStreamingDataset):
    def _compute_mel(self, waveform: Tensor) -> Tensor:
        return -super()._compute_mel(waveform)


def only_sample(
    folder: Path,
    kind: type[TrueStreamingDataset],
    workers: int = 0,
    record: dict[str, Any] = RECORD,
    **options: Any,
) -> dict[str, Any]:
    path = write(folder / "all.jsonl", [record])
    functions = {"vision": as_it_is}
    dataset = opened(folder, {"vision": [entry(path)]}, kind=kind, functions=functions, **{**OPTIONS, **options})
    [sample] = DataLoader(dataset, batch_size=None, num_workers=workers)
    return dict(sample)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (OtherImage, "images"),
        (OtherVideo, "videos"),
        (OtherFrames, "videos"),
        (OtherSound, "audio"),
        (OtherMel, "audio"),
    ],
)
def test_a_helper_of_a_subclass_changes_its_medium_alone(
    tmp_path: Path, kind: type[TrueStreamingDataset], changed: str, workers: int
) -> None:
    usual = only_sample(tmp_path, TrueStreamingDataset)
    other = only_sample(tmp_path, kind, workers)
    for key in ("images", "videos", "audio"):
        assert torch.equal(usual[key], other[key]) == (key != changed)


@pytest.mark.parametrize(("kind", "changed"), [(OtherImage, "image"), (OtherVideo, "video"), (OtherSound, "audio")])
def test_helpers_load_what_a_record_names_as_hugging_face_does(
    tmp_path: Path, kind: type[TrueStreamingDataset], changed: str
) -> None:
    named = {key: {"bytes": None, "path": RECORD[key]} for key in ("image", "video", "audio")}
    key = changed if changed == "audio" else f"{changed}s"
    usual = only_sample(tmp_path, TrueStreamingDataset)[key]
    assert torch.equal(only_sample(tmp_path, TrueStreamingDataset, record=RECORD | named)[key], usual)
    assert not torch.equal(only_sample(tmp_path, kind, record=RECORD | named)[key], usual)


def test_what_helpers_return_is_what_is_used(tmp_path: Path) -> None:
    usual = only_sample(tmp_path, TrueStreamingDataset, use_raw_waveform=True)
    backwards = only_sample(tmp_path, OtherVideo)
    assert torch.equal(backwards["videos"][[0, -1]], usual["videos"][[-1, 0]])
    assert only_sample(tmp_path, OtherFrames)["videos"].shape == (2, 3, 8, 8)
    twice_as_fast = only_sample(tmp_path, OtherSound, use_raw_waveform=True)["audio"]
    assert twice_as_fast.shape == (len(usual["audio"]) // 2,)
    mel = only_sample(tmp_path, TrueStreamingDataset)["audio"]
    assert torch.equal(only_sample(tmp_path, OtherMel)["audio"], -mel)


def test_a_video_is_a_sequence_of_all_its_frames() -> None:
    video = VideoFile((MEDIA / "3.mp4").read_bytes())
    assert len(video) > 3
    assert all(frame.dtype == np.uint8 and frame.shape == video[0].shape for frame in video)
    assert not np.array_equal(video[0], video[-1])


def test_a_subclass_that_takes_no_frame_of_a_video_is_told(tmp_path: Path) -> None:
    class Nothing(TrueStreamingDataset):
        def _sample_frames(self, video: Any, max_frames: int) -> Any:
            return []

    with pytest.raises(ValueError, match="_sample_frames returned no frames"):
        only_sample(tmp_path, Nothing)


class NamedPaths(TrueStreamingDataset):
    """Has the names of media in the order in which they are loaded."""

    def _process_sample(self, sample: dict[str, Any], dtype: str) -> dict[str, Any] | None:
        self.loaded: list[str] = []
        processed = super()._process_sample(sample, dtype)
        return None if processed is None else {**processed, "gen_prompts": self.loaded}

    def _load_image(self, path: str) -> Any:
        self.loaded.append(Path(path).name)
        return super()._load_image(path)

    def _load_video(self, path: str) -> Any:
        self.loaded.append(Path(path).name)
        return super()._load_video(path)


def test_images_are_loaded_before_videos_as_random_numbers_of_a_run_depend_on_it(tmp_path: Path) -> None:
    record = {**RECORD, "gen_images": str(MEDIA / "2.jpg")}
    assert only_sample(tmp_path, NamedPaths, record=record)["gen_prompts"] == ["1.jpg", "2.jpg", "3.mp4"]
