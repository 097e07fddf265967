"""The runs whose batches are pinned: small ones of every recipe, over data that is the same on every machine.

Media are committed files, or pixels and samples that every encoder keeps (PNG, WAV).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock
from penstock.feed import Feed
from tests.clips import clip_run, write_clips
from tests.e2e.chat_run import chat_run, copy_files
from tests.e2e.chat_run import source as demo_source
from tests.feed import test_parts
from tests.pipelines.test_robot_parity import NAMES, ROBOT, WINDOWS
from tests.recipes import chat_runs
from tests.recipes.processors import qwen2_vl
from tests.recipes.test_chat_resume import write as write_chat
from tests.recipes.test_speech import open_run, real_clips
from tests.shards import small_run, write_shards
from tests.text.chat_templates import CHATML
from tests.text.made_tokenizers import byte_level

LARGE = {"hindi": [260] * 8, "tamil": [300] * 7, "odia": [5, 9]}
"""Two sources that are dealt to lanes and a small one that is not."""

RUNS: dict[str, Callable[[Path], Feed]] = {}


def pinned(name: str) -> Callable[[Callable[[Path], Feed]], Callable[[Path], Feed]]:
    def keep(run: Callable[[Path], Feed]) -> Callable[[Path], Feed]:
        RUNS[name] = run
        return run

    return keep


def raw(folder: Path, **options: Any) -> Feed:
    write_shards(folder, options.pop("sizes", test_parts.VOICES))
    return penstock.open(small_run(folder, **{"global_batch_size": 4, "seed": 5, **options}))


@pinned("raw")
def raw_endless(folder: Path) -> Feed:
    return raw(folder)


@pinned("raw, two lanes")
def raw_lanes(folder: Path) -> Feed:
    return raw(folder, sizes=LARGE, lanes=2, global_batch_size=32, mixture={"weights": "items"})


@pinned("raw, two passes")
def raw_finite(folder: Path) -> Feed:
    return raw(folder, passes=2, global_batch_size=5)


@pinned("raw, file order")
def raw_file_order(folder: Path) -> Feed:
    return raw(folder, shuffle=False)


@pinned("raw, rounds")
def raw_rounds(folder: Path) -> Feed:
    return raw(folder, mixture={"rounds": {"max_per_source": 5, "repeat": 2}}, global_batch_size=3)


@pinned("raw, a later source")
def raw_later(folder: Path) -> Feed:
    """Comes in the middle of a batch, in stages, with weights by hours before."""
    sources = []
    for name, sizes in (("voices", test_parts.VOICES), ("notes", {"odia": [6, 3, 4]})):
        (folder / name).mkdir()
        write_shards(folder / name, sizes)
        sources.append({"name": name, "filelist": folder / name / "train.tsv", "store": str(folder / name)})
    sources[-1]["at"] = 18
    mixture = [{"weights": "hours"}, {"at": 18, "until": 50, "stages": 3, "weights": "equal"}]
    run = {key: value for key, value in small_run(folder).items() if key not in ("filelist", "store")}
    return penstock.open({**run, "sources": sources, "mixture": mixture, "global_batch_size": 4, "seed": 5})


@pinned("speech")
def speech_crops(folder: Path) -> Feed:
    return open_run(folder, real_clips(), batch_size=3, seed=5)


@pinned("speech, whole clips")
def speech_whole(folder: Path) -> Feed:
    return open_run(folder, real_clips(), batch_size=2, seed=5, passes=3, speech={"crop": "full", "features": "exact"})


@pinned("speech, change of mixture")
def speech_schedule(folder: Path) -> Feed:
    test_parts.write_clips(folder, {"hindi": [9, 8, 7], "tamil": [5, 6], "odia": [3]})
    mixture = [{"weights": "hours", "temperature": 0.5}, {"at": 37, "weights": {"hindi": 1, "odia": 2}}]
    speech = {"crop": "0.5s", "features": False}
    return penstock.open(small_run(folder, recipe="speech", batch_size=4, seed=5, mixture=mixture, speech=speech))


@pinned("speech, by length")
def speech_by_length(folder: Path) -> Feed:
    """With a quadratic term, clips that are longer than the budget, and excluded ones."""
    write_clips(folder)
    batch = {"seconds": 24, "units": 2, "window": 24, "quadratic_after": 4}
    exclude = [{"at": 30, "items": ["assamese-1.tar", "bengali_1_3"]}]
    return penstock.open(clip_run(folder, batch=batch, exclude=exclude, seed=5), rank=0, world=1)


@pinned("raw and speech")
def two_recipes(folder: Path) -> Feed:
    return test_parts.opened(test_parts.write_parts(folder))


def chat(folder: Path, **options: Any) -> Feed:
    """Two sources, of questions about images and of texts, with records that are left out and a broken image."""
    return chat_runs.run(write_chat(folder), seed=5, **options)


@pinned("chat")
def chat_padded(folder: Path) -> Feed:
    return chat(folder, too_long="drop", count_labels=True, mixture={"weights": "equal"})


@pinned("chat, packed")
def chat_packed(folder: Path) -> Feed:
    return chat(folder, pack=True, batch_size=2)


@pinned("chat, packed and flat, two passes")
def chat_flat(folder: Path) -> Feed:
    return chat(folder, pack=True, flat=True, batch_size=2, passes=2, max_length=128)


@pinned("chat, padding-free")
def chat_padding_free(folder: Path) -> Feed:
    return chat(folder, padding="none", pad_to_multiple_of=16)


@pinned("chat, rounds")
def chat_rounds(folder: Path) -> Feed:
    rounds = {"max_per_epoch": 15, "max_per_modality": {"image": 6}, "repeat": 2}
    return chat(folder, mixture={"rounds": rounds}, shuffle=False, batch_size=3)


@pinned("chat, chat template")
def chat_template(folder: Path) -> Feed:
    path = chat_runs.write_records(folder, [text_record(number) for number in range(40)])
    tokenizer = byte_level(chat_template=CHATML)
    return chat_runs.run([chat_runs.source(path, "conversation")], tokenizer=tokenizer, tokens=None, seed=5)


def text_record(number: int) -> dict[str, Any]:
    turns = [f"What is {number}?", f"It is {number}. " * (number % 4 + 1), "Thank you!", "Größe, 東京."]
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns[: number % 3 + 2])]}


@pinned("chat, processor")
def chat_processor(folder: Path) -> Feed:
    return chat_runs.run(chat_runs.write_questions(folder), processor=qwen2_vl(), max_length=160, pack=True, seed=5)


@pinned("chat, demo files")
def chat_files(folder: Path) -> Feed:
    """Images, sound, tools and plain records that others wrote."""
    copy_files(folder)
    names = ["alpaca_en_demo.json", "glaive_toolcall_en_demo.json", "mllm_audio_demo.json", "mllm_demo.json"]
    sources = [demo_source(name, folder) for name in [*names, "v1_sft_demo.jsonl"]]
    return penstock.open(chat_run(folder, sources, mixture={"weights": "items"}, chat={"image_size": 32}))


@pinned("robot")
def robot_frames(folder: Path) -> Feed:
    return penstock.robot(store=str(ROBOT / NAMES[0]), batch_size=4, seed=5, pool=4)


@pinned("robot, windows")
def robot_windows(folder: Path) -> Feed:
    source = {"name": "robot", "store": str(ROBOT / NAMES[1]), "exclude_episodes": [3], "drop_n_last_frames": 2}
    return penstock.robot(sources=[source], batch_size=3, seed=5, pool=4, delta_timestamps=WINDOWS)


@pinned("robot, two datasets")
def robot_mixture(folder: Path) -> Feed:
    sources = [{"name": name, "store": str(ROBOT / name)} for name in NAMES]
    weights = dict(zip(NAMES, (3, 1), strict=True))
    return penstock.robot(sources=sources, global_batch_size=4, seed=5, pool=3, mixture={"weights": weights})
