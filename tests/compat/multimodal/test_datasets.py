"""Datasets that are no JSONL files: folders with splits, tables with images, objects of a bucket."""

from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from penstock import ConfigError
from penstock.compat.multimodal import collate_fn, format_vision, format_voice_asr
from tests.compat.multimodal.made import MEDIA, entry, lines, opened, texts, write
from tests.conftest import S3Prefix

ONE_EPOCH: dict[str, Any] = {"sample_repeat": 1, "max_per_dataset": 3, "max_length": 64, "image_size": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with two splits and an ``Image`` feature, as the ``datasets`` package writes it."""
    import datasets

    folder = tmp_path_factory.mktemp("datasets")
    features = datasets.Features({"image": datasets.Image(), "question": datasets.Value("string")})
    for split, names in {"train": ["1.jpg", "2.jpg", "3.jpg"], "test": ["2.jpg"]}.items():
        stored = [{"bytes": (MEDIA / name).read_bytes(), "path": name} for name in names]
        rows = [{"image": image, "question": f"{split} {image['path']}"} for image in stored]
        made = datasets.Dataset.from_list(rows, features=features)
        made.to_parquet(folder / "photos/data" / f"{split}-00000-of-00001.parquet")
    return folder


def test_an_entry_that_is_not_local_is_a_dataset_with_splits(folder: Path) -> None:
    def names(split: str) -> list[str]:
        entries = [{"name": "photos", "path": str(folder / "photos"), "split": split}]
        dataset = opened(folder, {"vision": entries}, functions={"vision": format_vision}, **ONE_EPOCH)
        samples = list(dataset)
        assert all(sample["images"].shape == (3, 8, 8) for sample in samples)
        return [sample["text"].partition("<|/image|>")[2].partition("<|/user|>")[0] for sample in samples]

    assert names("train") == ["train 1.jpg", "train 2.jpg", "train 3.jpg"]
    assert names("test") == ["test 2.jpg"] * 3
    with pytest.raises(ConfigError, match="there is no split 'dev'; there are train, test"):
        names("dev")


def test_functions_of_a_user_get_images_as_the_datasets_package_gives_them(folder: Path) -> None:
    def cropped(sample: dict[str, Any], tokens: dict[str, str]) -> dict[str, Any] | None:
        image = sample["image"]
        assert isinstance(image, Image.Image)
        if image.height < 167:
            return None
        return {**format_vision(sample, tokens), "image": image.convert("L").convert("RGB").crop((0, 0, 20, 20))}

    entries = [{"name": "photos", "path": str(folder / "photos"), "split": "train"}]
    samples = list(opened(folder, {"vision": entries}, functions={"vision": cropped}, **ONE_EPOCH))
    accepted = [sample["text"].partition("train ")[2][:5] for sample in samples]
    assert accepted == ["1.jpg", "2.jpg", "1.jpg"]
    assert len({sample["images"].shape for sample in samples}) == 1
    grey = samples[0]["images"] * torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(3, 1, 1)
    grey += torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(3, 1, 1)
    assert torch.allclose(grey[0], grey[2], atol=1e-5)


def test_all_datasets_that_are_not_there_are_named_in_one_message(folder: Path, tmp_path: Path) -> None:
    configs = {
        "vision": [{"name": "one", "path": str(folder / "none"), "split": "train"}],
        "code": [lines(tmp_path, "a", 1), {"name": "two", "path": str(folder / "none.parquet")}],
    }
    with pytest.raises(ConfigError, match=r"(?s)one: .*none.*two: .*none\.parquet"):
        opened(tmp_path, configs)


def test_objects_of_a_bucket_and_media_beside_them(s3: S3Prefix, tmp_path: Path) -> None:
    path = write(tmp_path / "photos.jsonl", [{"image": "media/1.jpg", "question": "?"}])
    s3.put("photos.jsonl", Path(path).read_bytes())
    s3.put("media/1.jpg", (MEDIA / "1.jpg").read_bytes())
    remote = {"endpoint": s3.options.endpoint, "region": s3.options.region}
    there = {"name": "photos", "path": f"{s3.url}/photos.jsonl", "remote": remote}
    here = entry(write(tmp_path / "here.jsonl", [{"image": str(MEDIA / "1.jpg"), "question": "?"}]))
    samples = [
        next(iter(opened(tmp_path, {"vision": [each]}, functions={"vision": format_vision}, **ONE_EPOCH)))
        for each in (there, here)
    ]
    assert torch.equal(samples[0]["images"], samples[1]["images"])
    assert texts(samples[:1]) == texts(samples[1:])


def test_a_local_file_is_jsonl_whatever_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "records.txt", [{"text": "one"}, {"text": "two"}])
    assert texts(opened(tmp_path, {"code": [entry("records.txt")]}, sample_repeat=1, max_per_dataset=2)) == [
        "one",
        "two",
    ]


class _Files(SimpleHTTPRequestHandler):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, directory=str(MEDIA))

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def test_urls_are_fetched_where_that_is_allowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Files) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        records = [{"image": f"http://127.0.0.1:{server.server_port}/1.jpg"}, {"image": str(MEDIA / "2.jpg")}]
        entries = [entry(write(tmp_path / "urls.jsonl", records))]

        def first(**options: Any) -> torch.Tensor:
            caplog.clear()
            dataset = opened(tmp_path, {"vision": entries}, functions={"vision": format_vision}, **ONE_EPOCH, **options)
            image: torch.Tensor = next(iter(dataset))["images"]
            return image

        other = first()
        assert "allow_urls" in caplog.text
        assert torch.equal(first(allow_urls=True), other)
        assert "127.0.0.1" in caplog.text  # is not public
        fetched = first(allow_urls=True, allow_private=True)
        assert caplog.text == ""
        assert not torch.equal(fetched, other)
        server.shutdown()


def test_sounds_in_tables_reach_the_sample_through_workers(tmp_path: Path) -> None:
    stored = [{"bytes": (MEDIA / name).read_bytes(), "path": name} for name in ("2.wav", "3.flac", "4.mp3")]
    rows = [{"audio": sound, "text": f"says {sound['path']}"} for sound in stored]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "sounds.parquet")
    paths = [
        {"audio": str(MEDIA / sound["path"]), "text": row["text"]} for sound, row in zip(stored, rows, strict=True)
    ]
    write(tmp_path / "paths.jsonl", paths)

    def batch(name: str, workers: int) -> dict[str, Any]:
        dataset = opened(
            tmp_path,
            {"voice_asr": [entry(str(tmp_path / name))]},
            functions={"voice_asr": format_voice_asr},
            batch_size=3,
            audio_max_length=200,
            **ONE_EPOCH,
        )
        [made] = DataLoader(dataset, batch_size=3, num_workers=workers, collate_fn=collate_fn)
        return made

    stored_in_table = batch("sounds.parquet", 1)
    assert stored_in_table["audio"].shape == (3, 32_000)
    assert stored_in_table["audio_rows"].tolist() == [0, 1, 2]
    assert torch.equal(stored_in_table["audio"], batch("paths.jsonl", 0)["audio"])
