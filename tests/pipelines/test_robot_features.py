"""Features of every kind that a LeRobotDataset has, through a whole run: texts, lists, images, videos, distances."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import penstock
from penstock.curate.robot.writer import Episode, Layout, write_dataset
from penstock.media.video.depth import Quantised, distances
from penstock.media.video.encoding import Encoding
from tests.robots import FPS, ROWS, edit_info, episode, shown, shown_number, write_robot

LENGTHS = (9, 13, 6)
ENCODINGS = {
    "h264, groups of 2": Encoding("h264", 2),
    "h264, one group": Encoding("h264", 250),
    "h264, one group, 3 B-frames, header at the end": Encoding("h264", 250, b_frames=3, header_in_front=False),
    "h264, groups of 2, 1 B-frame": Encoding("h264", 2, b_frames=1),
    "hevc, open groups of 4": Encoding("hevc", 4, b_frames=2),
    "av1, groups of 2": Encoding("av1", 2),
    "av1, one group, header at the end": Encoding("av1", 250, header_in_front=False),
}


def samples(store: Path, **options: Any) -> Iterator[dict[str, Any]]:
    """Yield all samples of a dataset."""
    feed = penstock.robot(store=str(store), batch_size=7, passes=1, on_error="raise", **options)
    for step in range(len(feed)):
        batch = feed.batch(step)
        for row in np.flatnonzero(batch["valid"]).tolist():
            yield {key: value[row] for key, value in batch.items() if key not in ("step", "bad")}
    feed.close()


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_frame_of_any_video_is_its_own(name: str, tmp_path: Path) -> None:
    write_robot(tmp_path, LENGTHS, ["top"], layout=Layout(episodes_per_video_file=2, encoding=ENCODINGS[name]))
    seen = set()
    for sample in samples(tmp_path, delta_timestamps={"top": [-3 / FPS, 0, 5 / FPS]}):
        number = int(sample["episode_index"])
        frame = int(sample["frame_index"])
        inside = np.clip([frame - 3, frame, frame + 5], 0, LENGTHS[number] - 1).tolist()
        assert [shown(picture) for picture in sample["top"]] == [shown_number(0, number, each) for each in inside]
        seen.add((number, frame))
    assert len(seen) == sum(LENGTHS)


@pytest.mark.parametrize("rows_per_group", [None, 4, 1000])
def test_embedded_images_are_exact_whatever_the_row_groups(rows_per_group: int | None, tmp_path: Path) -> None:
    layout = Layout(images=("top",), rows_per_group=rows_per_group)
    write_robot(tmp_path, LENGTHS, ["top", "wrist"], layout=layout)
    original = [episode(number, length, ["top"]).values["top"] for number, length in enumerate(LENGTHS)]
    count = 0
    for sample in samples(tmp_path, delta_timestamps={"top": [-1 / FPS, 0]}):
        number = int(sample["episode_index"])
        frame = int(sample["frame_index"])
        before = original[number][max(0, frame - 1)]
        np.testing.assert_array_equal(sample["top"].permute(0, 2, 3, 1), np.stack([before, original[number][frame]]))
        assert sample["top_is_pad"].tolist() == [frame == 0, False]
        assert shown(sample["wrist"]) == shown_number(1, number, frame)
        count += 1
    assert count == sum(LENGTHS)


def test_texts_lists_and_scalars_of_any_type_are_stacked(tmp_path: Path) -> None:
    length = 6
    frames = np.arange(length)
    values = {
        "note": [f"note {frame}" for frame in frames],
        "matrix": np.arange(length * 6, dtype=np.float64).reshape(length, 2, 3),
        "reward": frames.astype(np.float32) / 2,
        "done": frames == length - 1,
        "force": frames[:, None].astype(np.float32),
        "small": frames.astype(np.uint8),
    }
    write_dataset(tmp_path, [Episode("t", values)], fps=FPS)
    windows = {"note": [0, 1 / FPS], "matrix": [-1 / FPS, 0], "reward": [0, 1 / FPS]}
    found = list(samples(tmp_path, delta_timestamps=windows))
    assert len(found) == length
    for sample in found:
        frame = int(sample["frame_index"])
        following = min(frame + 1, length - 1)
        assert sample["note"] == [f"note {frame}", f"note {following}"]
        assert sample["matrix"].dtype == torch.float64
        np.testing.assert_array_equal(sample["matrix"], values["matrix"][[max(0, frame - 1), frame]])
        assert sample["reward"].tolist() == [frame / 2, following / 2]
        assert bool(sample["done"]) == (frame == length - 1) and sample["done"].dtype == torch.bool
        assert sample["force"].shape == () and float(sample["force"]) == frame
        assert sample["small"].dtype == torch.uint8 and int(sample["small"]) == frame
        assert sample["note_is_pad"].tolist() == [False, frame == length - 1]


def png(pixels: np.ndarray) -> bytes:
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


def embed(folder: Path, key: str, images: list[bytes], shape: list[int], **about: Any) -> None:
    """Add a camera with embedded images to a dataset."""
    table = pq.read_table(folder / ROWS)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    column = pa.array([{"bytes": data, "path": None} for data in images], kind)
    pq.write_table(table.append_column(key, column), folder / ROWS)
    feature = {"dtype": "image", "shape": shape, "names": ["height", "width", "channels"], "info": about}
    edit_info(folder, lambda info: info["features"].update({key: feature}))


@pytest.mark.parametrize(("unit", "factor"), [("mm", 1.0), ("m", 0.001)])
def test_distances_of_16_bit_images_come_in_the_wanted_unit(unit: str, factor: float, tmp_path: Path) -> None:
    write_robot(tmp_path, [5])
    stored = np.random.default_rng(0).integers(0, 60_000, (5, 12, 16)).astype(np.uint16)
    embed(tmp_path, "depth", [png(each) for each in stored], [12, 16, 1], is_depth_map=True, depth_unit="mm")
    for sample in samples(tmp_path, depth_unit=unit):
        assert sample["depth"].shape == (1, 12, 16) and sample["depth"].dtype == torch.float32
        np.testing.assert_allclose(sample["depth"][0], stored[int(sample["frame_index"])] * factor, rtol=1e-6)


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    write_robot(tmp_path, [4])
    stored = np.random.default_rng(0).integers(0, 256, (4, 12, 16)).astype(np.uint8)
    embed(tmp_path, "grey", [png(each) for each in stored], [12, 16, 1])
    for sample in samples(tmp_path):
        np.testing.assert_array_equal(sample["grey"][0], stored[int(sample["frame_index"])])


def test_a_damaged_image_is_a_bad_sample_with_file_episode_and_frame(tmp_path: Path) -> None:
    write_robot(tmp_path, [4, 4])
    images = [png(np.zeros((8, 8, 3), np.uint8)) for _ in range(8)]
    images[5] = images[5][:30]
    embed(tmp_path, "top", images, [8, 8, 3])
    feed = penstock.robot(store=str(tmp_path), batch_size=8, max_bad=1.0)
    [bad] = feed.batch(0)["bad"]
    feed.close()
    assert bad.id == "1:1"
    assert bad.reason.startswith(f"{tmp_path}/{ROWS}, episode 1, frame 1: top: not a JPEG, PNG, ")


def test_distances_of_a_12_bit_video_are_those_of_its_codes(tmp_path: Path) -> None:
    lengths = (6, 4)
    write_robot(tmp_path, lengths, ["depth"])
    path = tmp_path / "videos/depth/chunk-000/file-000.mp4"
    codes = np.stack([np.full((64, 64), 300 * frame + 100, np.uint16) for frame in range(sum(lengths))])
    with av.open(str(path), "w", format="mp4") as container:
        options = {"x265-params": "log-level=error:keyint=2:lossless=1", "preset": "ultrafast"}
        stream: Any = container.add_stream("libx265", rate=FPS, options=options)
        stream.height = 64
        stream.width = 64
        stream.pix_fmt = "gray12le"
        for each in codes:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(each, format="gray12le")))
        container.mux(stream.encode(None))
    about = {"video.is_depth_map": True, "video.depth_min": 0.1, "video.depth_max": 4.0}
    edit_info(tmp_path, lambda info: info["features"]["depth"].update(shape=[64, 64, 1], info=about))
    expected = distances(codes, Quantised.of(about), "mm")
    count = 0
    for sample in samples(tmp_path):
        np.testing.assert_array_equal(sample["depth"][0], expected[int(sample["index"])])
        count += 1
    assert count == sum(lengths)


def test_a_camera_whose_shape_has_the_channels_first_is_the_same(tmp_path: Path) -> None:
    write_robot(tmp_path, [5], ["top"], size=(48, 64))

    def turn(info: dict[str, Any]) -> None:
        info["features"]["top"] |= {"shape": [3, 48, 64], "names": ["channels", "height", "width"]}

    edit_info(tmp_path, turn)
    for sample in samples(tmp_path):
        assert sample["top"].shape == (3, 48, 64)
        assert shown(sample["top"]) == shown_number(0, 0, int(sample["frame_index"]))


def test_times_of_a_long_episode_may_be_off_by_what_32_bits_can_not_hold(tmp_path: Path) -> None:
    fps = 3
    write_dataset(tmp_path, [Episode("t", {"top": np.zeros((1_600, 16, 16, 3), np.uint8)})], fps=fps)
    exact = np.arange(1_600) / fps
    off = np.abs(exact.astype(np.float32) - exact)
    worst = int(off.argmax())
    tolerance = 1e-5
    assert off[worst] > tolerance
    feed = penstock.robot(store=str(tmp_path), batch_size=4, on_error="raise", tolerance_s=tolerance)
    [(_, use)] = feed.where(f"0:{worst}")
    assert feed.batch(use.step)["frame_index"][use.slot] == worst
    feed.close()
