"""Where a dataset is looked for: in a folder, in LeRobot's own folder, on the hub."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.compat.lerobot import StreamingLeRobotDataset
from penstock.manifest.errors import ManifestError
from penstock.store.remote import hub as hub_module
from penstock.store.remote.remote import StoreError
from tests.compat.lerobot.datasets import FRAMES, Make
from tests.servers.hub import Hub

REPO = "someone/something"


@pytest.fixture
def hub(plain: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    root = plain().root
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with Hub(REPO, files, page=100) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def frames(tmp_path: Path, **options: Any) -> list[int]:
    cache = {"dir": str(tmp_path / "cache"), "size": "100MB"}
    return [item["index"].item() for item in StreamingLeRobotDataset(REPO, cache=cache, **options)]


def test_with_a_root_the_hub_is_not_asked(plain: Make, hub: Hub) -> None:
    assert StreamingLeRobotDataset(REPO, root=str(plain().root)).num_frames == FRAMES
    assert hub.asked == []
    with pytest.raises(ManifestError, match="this is not a LeRobotDataset"):
        StreamingLeRobotDataset(REPO, root=plain().root / "meta")
    assert hub.asked == []


@pytest.mark.parametrize("path", ["data/robot/dataset", "./dataset", "/data"])
def test_a_path_in_place_of_a_name_on_the_hub_is_refused_with_the_argument_to_use(hub: Hub, path: str) -> None:
    with pytest.raises(ValueError, match=rf"{path}' is not ORG/NAME .* named by root="):
        StreamingLeRobotDataset(path)
    assert hub.asked == []


def test_a_dataset_is_streamed_from_the_hub(plain: Make, hub: Hub, tmp_path: Path) -> None:
    expected = [item["index"].item() for item in plain(episode_pool_size=256)]
    assert frames(tmp_path) == expected
    assert hub.count("/revision/v3.0") and hub.count("/revision/main")  # there is no such tag
    assert not (tmp_path / "home").exists()


def test_a_revision_is_the_one_that_is_asked_for(hub: Hub, tmp_path: Path) -> None:
    assert len(frames(tmp_path, revision="feature/x")) == FRAMES
    assert hub.count("/revision/feature%2Fx") and not hub.count("/revision/main")
    with pytest.raises((StoreError, ManifestError), match="nowhere"):
        frames(tmp_path, revision="nowhere")


def test_a_bucket_is_streamed_as_well(hub: Hub, tmp_path: Path) -> None:
    assert len(frames(tmp_path, repo_type="bucket")) == FRAMES
    assert hub.count("/api/buckets/") and not hub.count("/api/datasets/")
    with pytest.raises(ValueError, match="repo_type"):
        frames(tmp_path, repo_type="model")


def test_the_root_of_a_bucket_is_a_folder_for_its_metadata(hub: Hub, tmp_path: Path) -> None:
    root = tmp_path / "metadata"
    cache = {"dir": str(tmp_path / "cache"), "size": "100MB"}
    dataset = StreamingLeRobotDataset(REPO, root=root, repo_type="bucket", cache=cache)
    assert len(list(dataset)) == FRAMES
    assert dataset.root == dataset.meta.root == root and not dataset.streaming_from_local
    copied = {str(path.relative_to(root)) for path in root.rglob("*.*") if path.is_file()}
    assert copied == {path for path in hub.files if path.startswith("meta/")}
    info = root / "meta" / "info.json"
    info.write_text("{}")
    StreamingLeRobotDataset(REPO, root=root, repo_type="bucket", cache=cache)
    assert info.read_text() == "{}"
    StreamingLeRobotDataset(REPO, root=root, repo_type="bucket", cache=cache, force_cache_sync=True)
    assert info.read_bytes() == hub.files["meta/info.json"]


def test_a_dataset_is_not_taken_for_a_bucket_of_its_name(hub: Hub, tmp_path: Path) -> None:
    assert len(frames(tmp_path, streaming=False)) == FRAMES
    asked = len(hub.asked)
    assert len(frames(tmp_path, repo_type="bucket")) == FRAMES
    assert len(hub.asked) > asked and hub.count("/api/buckets/")


@pytest.mark.parametrize("value", ["1", "true", "ON", "yes"])
@pytest.mark.parametrize("options", [{}, {"revision": "main"}, {"repo_type": "bucket"}, {"streaming": False}], ids=str)
def test_offline_the_hub_is_not_asked(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, options: dict[str, Any]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    with pytest.raises(
        StoreError, match=f"{REPO}.*: HF_HUB_OFFLINE is set, so no request is sent to the hub; use the path"
    ):
        frames(tmp_path, **options)
    assert hub.asked == []


def test_offline_what_is_in_lerobot_s_folder_is_used(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(frames(tmp_path, streaming=False)) == FRAMES
    hub.asked.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert len(frames(tmp_path)) == FRAMES
    assert hub.asked == []


def test_the_token_is_sent_and_false_sends_none(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.token = "hf_good"
    assert len(frames(tmp_path, token="hf_good")) == FRAMES
    assert "hf_good" not in os.environ.values()
    hub_module._given_tokens.clear()
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert len(frames(tmp_path)) == FRAMES
    with pytest.raises(StoreError):
        frames(tmp_path, token=False)


def test_a_worker_process_has_the_token_of_the_dataset(hub: Hub, tmp_path: Path) -> None:
    hub.token = "hf_good"
    cache = {"dir": str(tmp_path / "cache"), "size": "100MB"}
    dataset = StreamingLeRobotDataset(REPO, token="hf_good", shuffle=False, cache=cache)
    worker = pickle.dumps(dataset)
    hub_module._given_tokens.clear()
    assert next(iter(pickle.loads(worker)))["index"] == 0
    assert "hf_good" not in repr(dataset)


def test_without_streaming_the_dataset_is_downloaded_once(hub: Hub, tmp_path: Path) -> None:
    assert len(frames(tmp_path, streaming=False)) == FRAMES
    assert (tmp_path / "home" / REPO / "meta" / "info.json").is_file()
    asked = len(hub.asked)
    assert len(frames(tmp_path, streaming=False)) == FRAMES
    assert len(frames(tmp_path)) == FRAMES  # what is in LeRobot's own folder is used
    assert len(hub.asked) == asked


class Hiding(dict[str, bytes]):
    """Files of which one is listed and can't be downloaded."""

    hidden = "data/chunk-000/file-001.parquet"

    def __contains__(self, path: object) -> bool:
        return path != self.hidden and super().__contains__(path)


def test_a_download_that_was_interrupted_goes_on(hub: Hub, tmp_path: Path) -> None:
    hub.files = Hiding(hub.files)
    with pytest.raises(StoreError, match="file-001"):
        frames(tmp_path, streaming=False)
    assert not (tmp_path / "home" / REPO).exists()
    hub.files = dict(hub.files)
    assert len(frames(tmp_path, streaming=False)) == FRAMES
