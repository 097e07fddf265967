"""Items against those that LeRobot itself returned: keys, types, shapes and values."""

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

from penstock.compat.lerobot import StreamingLeRobotDataset
from tests.compat.lerobot.datasets import CAMERA, FPS, FRAMES, LENGTHS, STARTS, Make, loader_of, noisy, write_filmed
from tests.pipelines.test_robot_parity import NAMES, ROBOT, WINDOWS, recorded
from tests.videos import number_of


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["plain", "window"])
def test_items_are_those_that_lerobot_returned(name: str, kind: str) -> None:
    expected = dict(recorded(name, kind))
    episodes = sorted({int(item["episode_index"]) for item in expected.values()})
    windows = WINDOWS if kind == "window" else None
    dataset = StreamingLeRobotDataset("a/b", root=ROBOT / name, episodes=episodes, delta_timestamps=windows)
    found = {int(item["index"]): item for item in dataset if int(item["index"]) in expected}
    assert found.keys() == expected.keys()
    for index, item in found.items():
        assert item.keys() == expected[index].keys()
        for key, value in expected[index].items():
            if key == "task":
                assert item[key] == str(value)
                continue
            if "images" in key and not key.endswith("_is_pad"):
                assert item[key].dtype == torch.float32
                own = np.round(item[key].numpy() * 255).astype(np.uint8)  # as it was recorded
            else:
                own = item[key].numpy()
            assert own.dtype == value.dtype, key
            assert own.shape == value.shape, key
            np.testing.assert_array_equal(own, value, err_msg=key)


def test_numbers_have_the_types_that_torch_gives_to_lists_of_them(plain: Make) -> None:
    item = next(iter(plain(shuffle=False)))
    types = {key: value.dtype for key, value in item.items() if isinstance(value, torch.Tensor)}
    assert types == {
        "observation.state": torch.float32,
        "action": torch.float32,  # float64 in the file
        "count": torch.int64,  # int32 in the file
        "done": torch.bool,
        "timestamp": torch.float32,
        **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), torch.int64),
    }
    assert item["index"].shape == item["count"].shape == ()
    assert item["observation.state"].shape == (3,)
    assert item["note"] == "frame 0"
    assert item["task"] == "task 0"


@pytest.mark.parametrize("images", [(), (CAMERA,)], ids=["video", "images"])
def test_frames_of_cameras_belong_to_their_rows(filmed: Make, tmp_path: Path, images: tuple[str, ...]) -> None:
    root = write_filmed(tmp_path / "dataset", *images) if images else filmed().root
    seen = 0
    for item in filmed(root=root, return_uint8=not images):
        pixels = item[CAMERA] if not images else (item[CAMERA] * 255).round().to(torch.uint8)
        assert item[CAMERA].shape == (3, 32, 32)
        assert number_of(pixels.permute(1, 2, 0).numpy()) == int(item["index"])
        seen += 1
    assert seen == FRAMES


def test_windows_repeat_the_edge_of_the_episode_and_mark_it(filmed: Make) -> None:
    deltas = {CAMERA: [-2 / FPS, 0, 30 / FPS], "action": [-1 / FPS, 0, 1 / FPS], "note": [0, 1 / FPS]}
    for item in filmed(delta_timestamps=deltas, return_uint8=True):
        frame = int(item["frame_index"])
        length = LENGTHS[int(item["episode_index"])]
        first = STARTS[int(item["episode_index"])]
        wanted = [frame - 2, frame, frame + 30]
        inside = [first + min(max(number, 0), length - 1) for number in wanted]
        assert [number_of(pixels.permute(1, 2, 0).numpy()) for pixels in item[CAMERA]] == inside
        assert item[f"{CAMERA}_is_pad"].tolist() == [not 0 <= number < length for number in wanted]
        assert item["action"][:, 0].tolist() == [
            first + min(max(number, 0), length - 1) for number in (frame - 1, frame, frame + 1)
        ]
        assert item["action_is_pad"].tolist() == [frame == 0, False, frame == length - 1]
        assert item["action_is_pad"].dtype == torch.bool
        assert item["note"][0] == f"frame {first + frame}"


@pytest.mark.parametrize("images", [(), (CAMERA,)], ids=["video", "images"])
def test_a_window_of_one_frame_has_no_axis_of_time_for_videos_alone(
    filmed: Make, tmp_path: Path, images: tuple[str, ...]
) -> None:
    root = write_filmed(tmp_path / "dataset", *images) if images else filmed().root
    item = next(iter(filmed(root=root, delta_timestamps={CAMERA: [0.0], "action": [0.0]})))
    assert item[CAMERA].shape == ((1, 3, 32, 32) if images else (3, 32, 32))
    assert item[f"{CAMERA}_is_pad"].shape == (1,)
    assert item["action"].shape == (1, 2)


def test_items_are_stacked_by_a_dataloader(filmed: Make) -> None:
    batch = next(iter(loader_of(filmed(delta_timestamps={"action": [0.0, 0.1]}), 4, 0)))
    assert batch[CAMERA].shape == (4, 3, 32, 32)
    assert batch["action"].shape == (4, 2, 2)
    assert batch["action_is_pad"].shape == (4, 2)
    assert len(batch["task"]) == 4


def noise(items: Any) -> dict[int, float]:
    """What a random transform made of each frame."""
    return {int(index): float(mean) for item in items for index, mean in zip(item["index"], item[CAMERA], strict=True)}


def mean_of_noise(frames: torch.Tensor) -> torch.Tensor:
    return noisy(frames).mean()


def test_random_transforms_are_the_same_from_any_worker_and_thread(filmed: Make) -> None:
    torch.manual_seed(1)
    expected = noise(loader_of(filmed(image_transforms=mean_of_noise, batch_size=4), 4, 0))
    assert len(set(expected.values())) == FRAMES
    torch.manual_seed(2)
    np.random.seed(3)
    assert noise(loader_of(filmed(image_transforms=mean_of_noise, batch_size=4), 4, 2)) == expected
    found: list[dict[int, float]] = []
    datasets = [filmed(image_transforms=mean_of_noise) for _ in range(3)]
    threads = [Thread(target=lambda each=each: found.append(noise(loader_of(each, 1, 0)))) for each in datasets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 3


def test_random_transforms_differ_between_epochs_and_seeds_and_leave_the_generators_alone(filmed: Make) -> None:
    dataset = filmed(image_transforms=mean_of_noise)
    torch.manual_seed(5)
    np.random.seed(6)
    before = (torch.get_rng_state(), np.random.get_state()[1].tolist())
    first = {int(item["index"]): float(item[CAMERA]) for item in dataset}
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert not first.items() & noise(loader_of(dataset, 4, 0)).items()
    assert not first.items() & noise(loader_of(filmed(image_transforms=mean_of_noise, seed=1), 4, 0)).items()
