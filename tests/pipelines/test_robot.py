"""Robot runs, opened as a user opens them: which frames they draw, and what batches have."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import penstock
from penstock.config import ConfigError
from penstock.curate.robot.writer import Layout
from penstock.manifest.errors import ManifestError
from penstock.runtime.lending import Buffers
from tests.robots import FPS, ROWS, edit_info, edit_table, shown, shown_number, write_robot

LENGTHS = (10, 12, 8, 11)
CAMERAS = ("top", "wrist")


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four episodes, each with files of its own."""
    layout = Layout(episodes_per_data_file=1, episodes_per_video_file=1)
    return write_robot(tmp_path_factory.mktemp("robot"), LENGTHS, CAMERAS, layout=layout)


@contextmanager
def opened(store: Path | None = None, **options: Any) -> Iterator[penstock.Feed]:
    where = {} if store is None else {"store": str(store)}
    feed = penstock.robot(**where, **{"batch_size": 8, **options})
    yield feed
    feed.close()


def epoch(feed: penstock.Feed) -> Iterator[dict[str, Any]]:
    """Yield the batches of a finite run."""
    for step in range(len(feed)):
        yield feed.batch(step)


def frames_of(store: Path, **source: Any) -> list[str]:
    """Return the ids of all frames that a run over a dataset draws in one pass, in order."""
    with opened(sources=[{"name": "robot", "store": str(store), **source}], passes=1) as feed:
        found = [name for step in range(len(feed)) for name in [line.item for line in feed.lines(step)]]
    return sorted((name for name in found if name), key=lambda name: tuple(map(int, name.split(":"))))


def all_frames(lengths: dict[int, int]) -> list[str]:
    return [f"{episode}:{frame}" for episode, length in lengths.items() for frame in range(length)]


@pytest.mark.parametrize("as_file", [True, False])
def test_an_option_changes_its_own_key_of_the_section_only(robot: Path, tmp_path: Path, as_file: bool) -> None:
    config = {
        "store": str(robot),
        "batch_size": 2,
        "robot": {"delta_timestamps": {"top": [-1 / FPS, 0]}, "keys": ["top"]},
    }
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps({"recipe": "robot", **config}))
    feed = penstock.robot(path if as_file else config, resize=[16, 24])
    assert feed.batch(0)["top"].shape == (2, 2, 3, 16, 24)
    feed.close()


def test_a_pass_has_every_frame_once_under_its_id(robot: Path) -> None:
    assert frames_of(robot) == all_frames(dict(enumerate(LENGTHS)))


@pytest.mark.parametrize(
    ("source", "lengths"),
    [
        ({"episodes": [2, 0]}, {0: 10, 2: 8}),
        ({"exclude_episodes": [1]}, {0: 10, 2: 8, 3: 11}),
        ({"episodes": [0, 1, 2], "exclude_episodes": [2]}, {0: 10, 1: 12}),
        ({"tasks": ["task 1"]}, {1: 12, 3: 11}),
        ({"drop_n_last_frames": 9}, {0: 1, 1: 3, 3: 2}),
    ],
)
def test_filters_leave_their_frames_alone(robot: Path, source: dict[str, Any], lengths: dict[int, int]) -> None:
    assert frames_of(robot, **source) == all_frames(lengths)


def test_a_batch_is_stacked_tensors(robot: Path) -> None:
    windows = {"action": [0, 1 / FPS], "top": [-1 / FPS, 0, 1 / FPS]}
    with opened(robot, delta_timestamps=windows) as feed:
        batch = feed.batch(3)
    expected = {
        "top": (torch.uint8, (8, 3, 3, 64, 64)),
        "wrist": (torch.uint8, (8, 3, 64, 64)),
        "observation.state": (torch.float32, (8, 2)),
        "action": (torch.float32, (8, 2, 3)),
        "timestamp": (torch.float32, (8,)),
        "frame_index": (torch.int64, (8,)),
        "episode_index": (torch.int64, (8,)),
        "index": (torch.int64, (8,)),
        "task_index": (torch.int64, (8,)),
        "action_is_pad": (torch.bool, (8, 2)),
        "top_is_pad": (torch.bool, (8, 3)),
        "dataset_index": (torch.int64, (8,)),
    }
    assert {
        key: (value.dtype, tuple(value.shape)) for key, value in batch.items() if torch.is_tensor(value)
    } == expected
    assert batch["task"] == [f"task {number % 2}" for number in batch["episode_index"].tolist()]
    assert batch["ids"] == [
        f"{episode}:{frame}"
        for episode, frame in zip(batch["episode_index"].tolist(), batch["frame_index"].tolist(), strict=True)
    ]


def test_every_frame_of_every_window_is_of_its_own_episode_and_time(robot: Path) -> None:
    offsets = [-11, -1, 0, 2, 11]
    with opened(robot, delta_timestamps={"top": [offset / FPS for offset in offsets]}, passes=1) as feed:
        samples = 0
        for batch in epoch(feed):
            for row in np.flatnonzero(batch["valid"]).tolist():
                episode = int(batch["episode_index"][row])
                wanted = int(batch["frame_index"][row]) + np.array(offsets)
                inside = wanted.clip(0, LENGTHS[episode] - 1)
                assert [shown(frame) for frame in batch["top"][row]] == [
                    shown_number(0, episode, frame) for frame in inside.tolist()
                ]
                assert batch["top_is_pad"][row].tolist() == (wanted != inside).tolist()
                assert shown(batch["wrist"][row]) == shown_number(1, episode, int(batch["frame_index"][row]))
                samples += 1
    assert samples == sum(LENGTHS)


def test_windows_reach_frames_that_are_not_drawn(robot: Path) -> None:
    source = {"name": "robot", "store": str(robot), "episodes": [0], "drop_n_last_frames": 9}
    with opened(sources=[source], delta_timestamps={"action": [5 / FPS]}) as feed:
        batch = feed.batch(0)
    assert batch["action"][:, 0, 0].tolist() == [5.0] * 8 and not batch["action_is_pad"].any()


def test_files_of_episodes_that_are_filtered_out_are_never_opened(robot: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(robot, tmp_path / "copy"))
    for path in copy.rglob("file-000.*"):
        if "meta" not in path.parts:
            path.unlink()  # of episode 0
    with opened(sources=[{"name": "robot", "store": str(copy), "exclude_episodes": [0]}], passes=1) as feed:
        batches = list(epoch(feed))
    assert sum(int(batch["valid"].sum()) for batch in batches) == sum(LENGTHS[1:])
    assert not [bad for batch in batches for bad in batch["bad"]]


def test_cameras_that_batches_do_not_have_are_never_opened(robot: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(robot, tmp_path / "copy"))
    shutil.rmtree(copy / "videos" / "wrist")
    with opened(copy, keys=["top", "action"], on_error="raise") as feed:
        batch = feed.batch(0)
    assert "wrist" not in batch and "observation.state" not in batch
    assert batch["top"].shape == (8, 3, 64, 64)


def test_opening_reads_meta_alone(robot: Path, tmp_path: Path) -> None:
    shutil.copytree(robot / "meta", tmp_path / "meta")
    assert len(frames_of(tmp_path)) == sum(LENGTHS)
    with opened(tmp_path) as feed:
        [(item, use)] = feed.where("2:7")
        assert item.endswith("2:7") and feed.planned(use.step)


def test_the_pool_is_256_episodes_unless_the_config_says_otherwise(tmp_path: Path) -> None:
    lengths = [2] * 600
    write_robot(tmp_path, lengths)
    with opened(tmp_path) as feed:
        assert feed.state(0)["pool"] == 256
        episodes = {name.split(":")[0] for step in range(100) for name in [line.item for line in feed.lines(step)]}
        assert 256 <= len(episodes) <= 600
    with opened(tmp_path, pool=16) as feed:
        assert feed.state(0)["pool"] == 16


def test_a_long_episode_is_several_groups_and_one_window(tmp_path: Path) -> None:
    write_robot(tmp_path, [20_000, 5])
    with opened(tmp_path, delta_timestamps={"action": [-1 / FPS, 0, 1 / FPS]}) as feed:
        assert feed.catalog.group_sizes(0).tolist() == [8_192, 8_192, 3_616, 5]
        for frame in (0, 8_191, 8_192, 16_384, 19_999):
            [(_, use)] = feed.where(f"0:{frame}")
            batch = feed.batch(use.step)
            assert batch["ids"][use.slot] == f"0:{frame}"
            inside = np.array([frame - 1, frame, frame + 1]).clip(0, 19_999)
            assert batch["action"][use.slot, :, 0].tolist() == inside.tolist()
            assert batch["action_is_pad"][use.slot].tolist() == [frame == 0, False, frame == 19_999]


def test_resize_gives_what_torch_gives_in_float_within_one_step(robot: Path) -> None:
    with opened(robot) as plain, opened(robot, resize=[40, 24]) as small:
        before = plain.batch(1)
        after = small.batch(1)
    assert before["ids"] == after["ids"] and after["top"].shape == (8, 3, 40, 24)
    exact = torch.nn.functional.interpolate(before["top"].float(), (40, 24), mode="bilinear", antialias=True)
    assert (after["top"].float() - exact).abs().max() <= 1


def test_the_same_step_is_the_same_batch_whoever_makes_it(robot: Path) -> None:
    with opened(robot, seed=3) as feed, opened(robot, seed=3) as other:
        later = other.batch(9)
        made = [feed.batch(step) for step in (2, 9)]
        assert torch.equal(made[1]["top"], later["top"]) and made[1]["ids"] == later["ids"]
        with feed.loader(threads=2) as loader:
            for step, batch in zip(range(10), loader, strict=False):
                if step == 9:
                    assert torch.equal(batch["top"], later["top"])


def test_forked_workers_of_a_data_loader_give_the_same_batches_after_the_parent_has_decoded(robot: Path) -> None:
    with opened(robot, delta_timestamps={"top": [0, 1 / FPS]}) as feed:
        expected = [feed.batch(step) for step in range(4)]  # with decoders and threads of this process
        loader = DataLoader(
            feed, batch_size=None, sampler=range(4), num_workers=2, multiprocessing_context="fork", collate_fn=_as_it_is
        )
        for batch, own in zip(loader, expected, strict=True):
            assert batch["ids"] == own["ids"]
            assert torch.equal(batch["top"], own["top"]) and torch.equal(batch["wrist"], own["wrist"])


def _as_it_is(batch: Any) -> Any:
    return batch


def source(name: str, store: Path, **more: Any) -> dict[str, Any]:
    return {"name": name, "store": str(store), **more}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset at another frame rate, with one camera of another size under another name."""
    return write_robot(tmp_path_factory.mktemp("other"), [9, 9], ["front"], fps=10, size=(48, 48))


def test_datasets_are_mixed_by_weight_with_windows_at_their_own_rate(robot: Path, other: Path) -> None:
    with opened(
        sources=[source("arm", robot), source("hand", other, rename={"front": "top"})],
        mixture={"weights": {"arm": 3, "hand": 1}},
        delta_timestamps={"action": [0.1], "top": [0, 0.1]},
        resize=[32, 32],
        batch_size=40,
    ) as feed:
        batch = feed.batch(0)
    assert batch["sources"].count("hand") == 10
    assert batch["dataset_index"].tolist() == [0 if name == "arm" else 1 for name in batch["sources"]]
    assert "wrist" not in batch, "only one of the datasets has it"
    assert batch["top"].shape == (40, 2, 3, 32, 32)
    for row, name in enumerate(batch["sources"]):
        episode = int(batch["episode_index"][row])
        length = LENGTHS[episode] if name == "arm" else 9
        later = min(int(batch["frame_index"][row]) + (3 if name == "arm" else 1), length - 1)
        assert batch["action"][row, 0, 0] == later
        assert shown(batch["top"][row, 1]) == shown_number(0, episode, later)


def test_named_keys_that_a_dataset_lacks_are_filled_and_marked(robot: Path, other: Path) -> None:
    with opened(
        sources=[source("arm", robot), source("hand", other)],
        mixture={"weights": "equal"},
        keys=["wrist", "front", "action"],
        delta_timestamps={"wrist": [0, 1 / FPS], "action": [0]},  # the dataset at 10 fps has no wrist
        batch_size=20,
    ) as feed:
        batch = feed.batch(0)
    arm = torch.tensor([name == "arm" for name in batch["sources"]])
    assert 0 < arm.sum() < 20
    assert torch.equal(batch["wrist_is_missing"], ~arm) and torch.equal(batch["front_is_missing"], arm)
    assert "action_is_missing" not in batch and "observation.state" not in batch
    assert not batch["wrist"][~arm].any() and batch["wrist_is_pad"][~arm].all()
    assert not batch["front"][arm].any() and batch["front"][~arm].any()


def test_what_can_not_be_stacked_is_refused_with_what_to_do(robot: Path, other: Path) -> None:
    sources = [source("arm", robot), source("hand", other, rename={"front": "top"})]
    with pytest.raises(
        ConfigError, match=r"'top' is camera \[64, 64, 3\] in arm and camera \[48, 48, 3\] in hand"
    ) as error:
        penstock.robot(sources=sources, batch_size=4)
    assert "set robot.resize" in str(error.value)
    sources = [source("arm", robot), source("hand", other, rename={"action": "top"})]
    with pytest.raises(ConfigError, match=r"'top' is camera .* and float32 .* rename one of them"):
        penstock.robot(sources=sources, batch_size=4)


def test_statistics_come_per_source_and_merged(robot: Path, other: Path) -> None:
    with opened(sources=[source("arm", robot), source("hand", other)]) as feed:
        recipe = feed.recipes["robot"]
        arm = recipe.statistics("arm")["action"]
        both = recipe.statistics()["action"]
        with pytest.raises(ValueError, match="there is no source 'foot'; there are arm, hand"):
            recipe.statistics("foot")
    values = [np.arange(length) for length in (*LENGTHS, 9, 9)]
    frames = np.concatenate(values)
    everything = np.stack([frames, -frames, frames**2], axis=1)
    np.testing.assert_allclose(both["mean"], everything.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(both["std"], everything.std(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(both["min"], everything.min(axis=0))
    np.testing.assert_array_equal(both["max"], everything.max(axis=0))
    assert both["count"].tolist() == [len(frames)]
    assert "q50" in arm and "q50" not in both, "an average of quantiles is no quantile"


def test_a_dataset_without_cameras_needs_no_video(tmp_path: Path) -> None:
    write_robot(tmp_path, [5, 7])
    edit_info(tmp_path, lambda info: info.update(video_path=None))
    with opened(tmp_path, passes=1) as feed:
        assert sum(int(batch["valid"].sum()) for batch in epoch(feed)) == 12


def test_a_bad_sample_of_a_finite_run_is_left_empty(
    robot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = Buffers.empty

    def used(self: Buffers, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return memory as it is after an earlier batch."""
        array = fresh(self, shape, dtype)
        array.fill(7)
        return array

    monkeypatch.setattr(Buffers, "empty", used)
    copy = Path(shutil.copytree(robot, tmp_path / "copy"))
    edit_table(copy, ROWS, {"timestamp": {4: 0.5}})  # of episode 0
    with opened(copy, passes=1, max_bad=1.0) as feed:
        batches = list(epoch(feed))
    empty = [
        {key: value[row] for key, value in batch.items() if torch.is_tensor(value)}
        for batch in batches
        for row in np.flatnonzero(~batch["valid"])
    ]
    assert [(bad.id, bad.outcome) for batch in batches for bad in batch["bad"]] == [("0:4", "empty")]
    assert empty and all(not value.any() for sample in empty for value in sample.values())


@pytest.mark.parametrize("keys", [{"store": "nowhere"}, {"sources": [{"name": "a", "store": "nowhere"}]}])
def test_a_folder_that_does_not_exist_is_named(keys: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match="nowhere: there is no such folder"):
        penstock.robot(batch_size=2, **keys)


def test_ids_find_their_steps_and_rows_in_any_epoch(robot: Path) -> None:
    with opened(robot) as feed:
        for name in ("3:10", "episode-3:3:10"):
            [row] = feed.catalog.find(name)
            for use in feed.uses(row, range(3), 1, feed.timeline(1)):
                assert feed.batch(use.step)["ids"][use.slot] == "3:10"
        for name in ("3:11", "4:0", "episode-2:3:10", "3", "a:b", "-1:0"):
            assert feed.catalog.find(name) == []


def test_a_frame_of_a_mix_is_named_with_its_source(robot: Path, other: Path) -> None:
    sources = [source("arm", robot), source("hand", other)]
    with opened(sources=sources) as feed:
        for name in ("1:2", "episode-1:1:2"):
            assert [item for item, _ in feed.where(name)] == ["arm/episode-1:1:2", "hand/episode-1:1:2"]
        [(_, use)] = feed.where("hand/episode-1:1:2")
        assert feed.batch(use.step)["sources"][use.slot] == "hand"
        assert feed.catalog.find("foot/episode-1:1:2") == []


def test_the_order_does_not_depend_on_where_the_dataset_lies(robot: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(robot, tmp_path / "elsewhere"))
    with opened(robot) as here, opened(moved) as there:
        assert [here.batch(step)["ids"] for step in (0, 7)] == [there.batch(step)["ids"] for step in (0, 7)]
        assert there.resume(here.state(5)) == 5
