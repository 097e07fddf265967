"""The arguments: those of the document first, each of them with an effect, and errors at the start."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock
from penstock import ConfigError
from penstock.compat import multimodal
from penstock.compat.multimodal import TrueStreamingDataset, format_conversation, format_tool_use, format_vision
from tests.compat.multimodal.made import MEDIA, TOKENS, Letters, as_it_is, entry, lines, opened, texts, write
from tests.compat.multimodal.test_samples import Recording, Voice

# From the document, in its order.
WITHOUT_DEFAULT = ["dataset_configs", "format_functions", "tokenizer", "tokens", "image_processor"]
WITH_DEFAULT = {
    "max_length": 1024,
    "max_per_epoch": 2000,
    "max_per_dataset": 100,
    "sample_repeat": 2,
    "voice_processor": None,
    "max_video_frames": 32,
    "video_size": 256,
    "image_size": 256,
    "audio_n_mels": 80,
    "audio_max_length": 1000,
    "audio_sample_rate": 16000,
    "resume_state_path": None,
    "use_raw_waveform": True,
    "modality_max_values": None,
}


def test_the_signature_is_that_of_the_document_and_ours_follow_by_keyword() -> None:
    parameters = list(inspect.signature(TrueStreamingDataset).parameters.values())
    documents = parameters[: len(WITHOUT_DEFAULT) + len(WITH_DEFAULT)]
    assert [each.name for each in documents] == [*WITHOUT_DEFAULT, *WITH_DEFAULT]
    assert {each.name: each.default for each in documents if each.default is not each.empty} == WITH_DEFAULT
    assert all(each.kind is each.POSITIONAL_OR_KEYWORD for each in documents)
    ours = parameters[len(documents) :]
    assert all(each.kind is each.KEYWORD_ONLY and each.default is not each.empty for each in ours)


def test_the_module_exports_the_class_the_collate_function_and_the_eight_formats() -> None:
    assert penstock.TrueStreamingDataset is TrueStreamingDataset
    formats = ("code", "conversation", "tool_use", "vision", "video", "voice_asr", "voice_tts", "generation")
    assert set(multimodal.__all__) == {"TrueStreamingDataset", "collate_fn", *(f"format_{name}" for name in formats)}
    assert issubclass(TrueStreamingDataset, torch.utils.data.IterableDataset)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arguments")
    lines(folder, "a", 8)
    lines(folder, "b", 8)
    write(folder / "image.jsonl", [{"image": str(MEDIA / "1.jpg"), "text": "i"}])
    write(folder / "video.jsonl", [{"video": str(MEDIA / "3.mp4"), "text": "v"}])
    write(folder / "sound.jsonl", [{"audio": str(MEDIA / "2.wav"), "text": "s"}])
    write(folder / "many.jsonl", [{"text": "x" * 10}])
    return folder


def entries(folder: Path, *names: str) -> list[dict[str, Any]]:
    return [entry(str(folder / f"{name}.jsonl")) for name in names]


def text_only(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {"code": entries(folder, "a", "b")}


def media(kind: str, dtype: str) -> Callable[[Path], dict[str, list[dict[str, Any]]]]:
    return lambda folder: {dtype: entries(folder, kind)}


IMAGE = media("image", "vision")
VIDEO = media("video", "video")
SOUND = media("sound", "voice_asr")
SMALL: dict[str, Any] = {"image_size": 8, "video_size": 8, "max_video_frames": 2, "audio_max_length": 20}
ONE: dict[str, Any] = {"max_per_epoch": 1}
MEL: dict[str, Any] = {**ONE, "use_raw_waveform": False}


def yielded(dataset: TrueStreamingDataset, number: int = 8) -> list[str]:
    """What the first samples hold, to be compared."""
    found = []
    for _, sample in zip(range(number), dataset, strict=False):
        found.append(
            str({key: (value.shape, value.sum()) if torch.is_tensor(value) else value for key, value in sample.items()})
        )
    return found


class OtherLetters(Letters):
    pad_token_id = 4


@pytest.mark.parametrize(
    ("configs", "common", "changed"),
    [
        (text_only, {}, {"format_functions": {"code": lambda sample, _: {"text": sample["text"].upper()}}}),
        (text_only, {}, {"tokenizer": OtherLetters()}),
        (
            text_only,
            {"format_functions": {"code": lambda _, tokens: {"text": tokens["user_start"]}}},
            {"tokens": {"user_start": "U"}},
        ),
        (IMAGE, ONE, {"image_processor": Recording()}),
        (text_only, {}, {"max_length": 17}),
        (text_only, {}, {"max_per_epoch": 3}),
        (text_only, {}, {"max_per_dataset": 1}),
        (text_only, {}, {"sample_repeat": 1}),
        (SOUND, MEL, {"voice_processor": Voice()}),
        (VIDEO, ONE, {"max_video_frames": 3}),
        (VIDEO, ONE, {"video_size": 9}),
        (IMAGE, ONE, {"image_size": 9}),
        (SOUND, MEL, {"audio_n_mels": 40}),
        (SOUND, ONE, {"audio_max_length": 30}),
        (SOUND, ONE, {"audio_sample_rate": 8000}),
        (SOUND, ONE, {"use_raw_waveform": False}),
        (text_only, {}, {"modality_max_values": {"text": 2}}),
        (text_only, {}, {"shuffle": True}),
        (text_only, {"shuffle": True}, {"seed": 5}),
        (text_only, {"world_size": 2}, {"rank": 1}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) and value else "",
)
def test_changing_an_argument_changes_the_output(
    folder: Path, configs: Callable[[Path], Any], common: dict[str, Any], changed: dict[str, Any]
) -> None:
    def made(options: dict[str, Any]) -> list[str]:
        given = {**SMALL, **options}
        functions = given.pop("format_functions", None)
        return yielded(opened(folder, configs(folder), functions=functions, **given))

    before = made(common)
    assert before == made(common)
    assert made({**common, **changed}) != before


def test_the_other_arguments_have_an_effect_too(folder: Path, tmp_path: Path) -> None:
    small = opened(folder, {"code": entries(folder, "a")})
    assert texts(small) != texts(opened(folder, text_only(folder)))  # dataset_configs
    state = tmp_path / "state.json"
    next(iter(small))
    small._save_streaming_state(state)
    assert len(texts(opened(folder, {"code": entries(folder, "a")}, resume_state_path=str(state)))) == len(small) - 1
    opened(folder, text_only(folder), cache={"dir": str(tmp_path / "elsewhere"), "size": "1GB"}).__iter__().__next__()
    assert any((tmp_path / "elsewhere").rglob("*"))
    ranks = [
        opened(folder, text_only(folder), world_size=2, rank=rank, batch_size=2, sample_repeat=1) for rank in (0, 1)
    ]
    one, other = (texts(rank) for rank in ranks)
    alone = texts(opened(folder, text_only(folder), sample_repeat=1))
    assert sorted(one + other) == sorted(alone)
    assert (len(ranks[0]), one[:2], other[:2]) == (len(one), alone[:2], alone[2:4])


def test_a_name_under_two_dtypes_is_two_sources(folder: Path) -> None:
    path = str(folder / "a.jsonl")
    configs = {"code": [entry(path, "same")], "text": [entry(path, "same"), entry(path, "other")]}
    functions = {dtype: lambda sample, _, dtype=dtype: {**sample, "dtype": dtype} for dtype in configs}
    dataset = opened(folder, configs, functions=functions, max_per_epoch=6, sample_repeat=1)
    expected = [(number, dtype) for number in ("a-0", "a-1") for dtype in ("code", "text", "text")]
    assert [(sample["text"], sample["dtype"]) for sample in dataset] == expected
    assert list(dataset._streaming_state["dataset_positions"]) == ["same:code", "same:text", "other"]


def test_a_modality_without_a_cap_has_none(folder: Path) -> None:
    configs = {"code": entries(folder, "a"), "vision": entries(folder, "b")}
    common: dict[str, Any] = {"sample_repeat": 1, "max_per_dataset": 8}
    dataset = opened(folder, configs, modality_max_values={"image": 2, "audio": 1}, **common)
    assert len(texts(dataset)) == 8 + 2
    assert len(texts(opened(folder, configs, **common))) == 16
    assert len(texts(opened(folder, configs, modality_max_values={"image": 0}, **common))) == 8
    assert len(texts(opened(folder, configs, modality_max_values={"image": float("inf")}, **common))) == 16


def test_functions_may_be_closures_lambdas_and_methods(folder: Path) -> None:
    class Shouting:
        def __init__(self, end: str) -> None:
            self.end = end

        def format(self, sample: Any, _: Any) -> dict[str, str]:
            return {"text": sample["text"] + self.end}

        __call__ = format

    end = "."

    def closure(sample: Any, _: Any) -> dict[str, str]:
        return {"text": sample["text"] + end}

    configs = {"code": entries(folder, "a")}
    functions: list[Any] = [
        closure,
        lambda sample, _: {"text": sample["text"] + "?"},
        Shouting("!").format,
        Shouting(";"),
    ]
    found = [next(iter(opened(folder, configs, functions={"code": each})))["text"] for each in functions]
    assert found == ["a-0.", "a-0?", "a-0!", "a-0;"]


def test_a_closure_over_objects_resumes_in_another_process_as_the_same_run(folder: Path, tmp_path: Path) -> None:
    class Filter:
        def __init__(self, least: int) -> None:
            self.least = least

    def function(least: int) -> Callable[..., Any]:
        chosen = Filter(least)
        inner = lambda number: number >= chosen.least  # noqa: E731
        return lambda sample, _: dict(sample) if inner(int(sample["text"][2:])) else None

    def dataset(least: int, **options: Any) -> TrueStreamingDataset:
        return opened(folder, {"code": entries(folder, "a")}, functions={"code": function(least)}, **options)

    first = dataset(2)
    assert texts(first)[0] == "a-2"
    assert texts(dataset(5))[0] == "a-5"  # another filter has an index of its own
    first._save_streaming_state(tmp_path / "state.json")
    dataset(2, resume_state_path=str(tmp_path / "state.json"))  # the objects are new, what they hold is the same
    with pytest.raises(penstock.StateError):
        dataset(5, resume_state_path=str(tmp_path / "state.json"))


@pytest.mark.parametrize(
    ("configs", "options", "message"),
    [
        ({}, {}, "dataset_configs: has no dataset"),
        ({"code": None}, {}, "has no dataset"),
        ({"code": [{"name": "x"}]}, {}, "x has no `path`"),
        ({"code": ["a.jsonl"]}, {}, "an entry must be a dict"),
        (
            {"code": {"name": "x", "path": "a.jsonl"}},
            {},
            r"dataset_configs\['code'\]: must be a list of entries, not a dict",
        ),
        (["a.jsonl"], {}, "dataset_configs: must be a dict of lists by dtype, not a list"),
        ("a", {"tokenizer": "gpt2"}, "tokenizer: must be an object of transformers or a function, not 'gpt2'"),
        (
            "a",
            {"image_processor": "clip"},
            "image_processor: must be an object .* or a function, not 'clip'",
        ),
        ("a", {"tokens": None}, "tokens: must be a dict of special tokens by name, not None"),
        ({"code": [{"name": "x", "path": "none.jsonl", "local": True}]}, {}, "x: there is no file .*none.jsonl"),
        ("a", {"functions": {"cod": as_it_is}}, "no function for dtype 'code', which dataset_configs names.*cod"),
        ("a", {"functions": {"code": None}}, "no function for dtype 'code'"),
        (
            "a",
            {"functions": {"code": format_tool_use}, "tokens": {}},
            "tokens: system_start.* missing; dtype 'code' needs them",
        ),
        ("a", {"modality_max_values": {"imgae": 3}}, "no modality 'imgae'.*image"),
        ("a", {"sample_repeat": 0, "max_per_epoch": 1.5}, "max_per_epoch: .*\n?sample_repeat: must be an integer"),
        ("a", {"batch_size": 0}, "batch_size: must be at least 1"),
        ("a", {"modality_max_values": {"text": 0, "image": 3}}, "every modality of the datasets has the cap 0"),
        ("a", {"modality_max_values": {"text": -1}}, "text: must be an integer of at least 0, not -1"),
        ("a", {"tokenizer": type("NoPad", (), {"pad_token_id": None})()}, "it has no pad token"),
    ],
)
def test_what_is_wrong_is_an_error_at_the_start(
    folder: Path, configs: Any, options: dict[str, Any], message: str
) -> None:
    given = {"code": entries(folder, "a")} if configs == "a" else configs
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        opened(folder, given, **options)


def test_only_tokens_that_a_built_in_function_uses_have_to_be_there(folder: Path) -> None:
    turns = {key: value for key, value in TOKENS.items() if key.startswith(("system", "user", "assistant"))}
    path = write(folder / "turns.jsonl", [{"messages": [{"role": "user", "content": "Hi."}]}])
    functions = {"agentic": format_conversation}
    [sample] = opened(
        folder, {"agentic": [entry(path)]}, functions=functions, tokens=turns, max_per_epoch=1, sample_repeat=1
    )
    assert (sample["text"], sample["dtype"]) == ("<|user|>Hi.<|/user|>", "conversation")
    with pytest.raises(ConfigError, match="image_start, image_end missing; dtype 'vision' needs them"):
        opened(folder, {"vision": [entry(path)]}, functions={"vision": format_vision}, tokens=turns)


def test_keys_of_an_entry_that_mean_nothing_are_named(folder: Path) -> None:
    known = {"streaming": True, "format": "jsonl", "split": "train", "config": None}
    opened(folder, {"code": [entry(str(folder / "a.jsonl"), **known)]})
    with pytest.warns(UserWarning, match="fliter_images without effect"):
        opened(folder, {"code": [entry(str(folder / "a.jsonl"), fliter_images=True)]})


def test_a_function_that_raises_rejects_the_record_and_one_that_returns_no_dict_is_an_error(folder: Path) -> None:
    path = write(folder / "mixed.jsonl", [{"text": "a"}, {"other": "b"}, {"text": "c"}])
    configs = {"code": [entry(path)]}
    raising = {"code": lambda sample, _: {"text": sample["text"]}}
    assert texts(opened(folder, configs, functions=raising, max_per_epoch=3, sample_repeat=1)) == ["a", "c", "a"]
    with pytest.raises(TypeError, match="must return a dict or None; it returned a str"):
        next(iter(opened(folder, configs, functions={"code": lambda sample, _: json.dumps(sample)})))
