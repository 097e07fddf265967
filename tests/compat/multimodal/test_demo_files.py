"""The demo files of tests/data/chat, every record: texts by functions of a user, media as other libraries find them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.compat.multimodal import format_conversation
from tests.compat.multimodal.made import TOKENS, entry, opened
from tests.e2e.chat_golden import FRAMES, GOLDEN, SIZE
from tests.e2e.chat_run import copy_files
from tests.text.formats.test_demo_files import records

Function = Callable[[dict[str, Any], dict[str, str]], dict[str, Any]]


def alpaca(sample: dict[str, Any], tokens: dict[str, str]) -> dict[str, Any]:
    asked = "\n".join(filter(None, [sample["instruction"], sample.get("input")]))
    turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": sample["output"]}]
    return format_conversation({"messages": turns}, tokens)


def with_media(key: str, column: str) -> Function:
    def function(sample: dict[str, Any], tokens: dict[str, str]) -> dict[str, Any]:
        media = sample[column]
        return {**format_conversation(sample, tokens), key: media if key == "image" else media[0]}

    return function


FILES: dict[str, tuple[str, Function]] = {
    "alpaca_en_demo.json": ("instruction", alpaca),
    "glaive_toolcall_en_demo.json": ("tool_use", format_conversation),
    "v1_sft_demo.jsonl": ("conversation", format_conversation),
    "mllm_demo.json": ("vision", with_media("image", "images")),
    "mllm_video_demo.json": ("video", with_media("video", "videos")),
    "mllm_audio_demo.json": ("voice_asr", with_media("audio", "audios")),
}
MEDIA = {"vision": ("images", "image"), "video": ("videos", "video"), "voice_asr": ("audio", "audio")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("demo")
    copy_files(made)
    return made


@pytest.mark.parametrize("name", FILES)
def test_every_record_of_a_demo_file_is_a_sample(folder: Path, name: str) -> None:
    dtype, function = FILES[name]
    golden = json.loads(GOLDEN.read_text())[name]
    dataset = opened(
        folder,
        {dtype: [entry(str(folder / name))]},
        functions={dtype: function},
        max_per_epoch=len(golden),
        max_per_dataset=len(golden),
        sample_repeat=1,
        max_length=64,
        image_size=SIZE,
        video_size=SIZE,
        max_video_frames=FRAMES,
    )
    samples = list(dataset)
    assert [sample["text"] for sample in samples] == [function(record, TOKENS)["text"] for record in records(name)]
    if dtype in MEDIA:
        key, kind = MEDIA[dtype]
        for sample, expected in zip(samples, golden, strict=True):
            found = sample[key] if isinstance(sample[key], list) else [sample[key]]
            for medium, summary in zip(found, expected[kind], strict=True):
                assert list(medium.shape) == summary["shape"]
                values = medium.numpy()
                spread = values.reshape(-1)[np.linspace(0, values.size - 1, 11, dtype=int)]
                np.testing.assert_allclose(spread, summary["values"], atol=0.035)  # two steps of uint8
                np.testing.assert_allclose(values.mean(), summary["mean"], atol=0.01)
