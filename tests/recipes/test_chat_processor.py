"""Batches with a multimodal processor: as it makes them itself, and with the loss of every sample alone."""

import copy
import json
import pickle
import tarfile
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import LlavaProcessor

from penstock.config.errors import ConfigError
from penstock.media.image.pixels import image_pixels, image_size
from penstock.recipes.model_fields import rope_positions
from penstock.recipes.processor import Processor
from penstock.text.rendered import Medium
from tests.recipes.chat_runs import RECORDS, question, run, source, tokenizer, write_questions, write_records
from tests.recipes.processors import FAMILIES, MODELS

LENGTH = 160
INPUTS = (
    "input_ids",
    "attention_mask",
    "position_ids",
    "mm_token_type_ids",
    "token_type_ids",
    "pixel_values",
    "pixel_attention_mask",
    "image_grid_thw",
    "image_sizes",
    "batch_num_images",
    "labels",
)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_questions(tmp_path_factory.mktemp("questions"))


def feed_of(path: Path, family: str, **options: Any) -> Any:
    return run(path, processor=FAMILIES[family](), max_length=LENGTH, **options)


def messages(number: int) -> list[dict[str, Any]]:
    """A conversation as a user of the processor would write it."""
    asked, answered = question(number)["messages"]
    text = {"type": "text", "text": asked["content"].removeprefix("<image>")}
    said = {"type": "text", "text": answered["content"]}
    return [{"role": "user", "content": [{"type": "image"}, text]}, {"role": "assistant", "content": [said]}]


def written(family: str, messages: list[dict[str, Any]], **options: Any) -> str:
    """What the template of a processor writes."""
    processor = FAMILIES[family]()
    template = {"chat_template": processor.chat_template}
    return str(processor.tokenizer.apply_chat_template(messages, tokenize=False, **template, **options))


def processed(family: str, folder: Path, numbers: list[int]) -> Any:
    """What the processor itself makes of records."""
    processor = FAMILIES[family]()
    texts = [written(family, messages(number)) for number in numbers]
    images = [[Image.open(folder / f"{number}.png").convert("RGB")] for number in numbers]
    return processor(text=texts, images=images, padding=True, return_tensors="pt")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_is_what_the_processor_makes_of_it(questions: Path, family: str) -> None:
    batch = feed_of(questions, family).batch(1)
    expected = processed(family, questions.parent, [int(id) for id in batch["ids"]])
    assert len(expected) > 2
    for name, value in expected.items():
        assert torch.equal(batch[name], value), name
    assert batch["image_rows"].tolist() == [0, 1, 2, 3]
    trained = [FAMILIES[family]().tokenizer.decode(row[row != -100]) for row in batch["labels"]]
    answers = [question(int(id))["messages"][1]["content"] for id in batch["ids"]]
    smolvlm = family == "smolvlm"
    assert trained == [f" {said}<end_of_utterance>" if smolvlm else f"{said}<|im_end|>" for said in answers]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_index_knows_the_tokens_of_images_from_their_headers(questions: Path, family: str) -> None:
    feed = feed_of(questions, family, pack=True, batch_size=2)
    packs = feed.catalog.amounts["items"][0]
    seen = [id for step in range(-(-packs // 2)) for ids in feed.batch(step)["ids"] for id in ids]
    assert {int(id) for id in seen} == set(range(RECORDS))
    for step in range(-(-packs // 2)):
        batch = feed.batch(step)
        assert not batch["bad"]  # a sample that is longer than its recorded length would be one
        assert batch["global_label_tokens"] == batch["label_tokens"]
    plain = feed_of(questions, family, count_labels=True)
    index = plain.catalog.reader(0)._index
    lengths = index.group(0).lengths.tolist()
    for step in range(3):
        batch = plain.batch(step)
        assert batch["attention_mask"].sum(1).tolist() == [lengths[int(id)] for id in batch["ids"]]


@pytest.mark.parametrize("family", MODELS)
def test_the_loss_is_that_of_samples_alone_in_every_kind_of_row(questions: Path, family: str) -> None:
    model = MODELS[family]()
    kinds: dict[str, dict[str, Any]] = {
        "padded": {},
        "padding-free": {"padding": "none"},
        "packed": {"pack": True, "batch_size": 2},
        "packed and flat": {"pack": True, "flat": True, "batch_size": 2},
    }
    alone = {number: loss_alone(model, family, questions.parent, number) for number in range(RECORDS)}
    for kind, options in kinds.items():
        batch = feed_of(questions, family, **options).batch(0)
        ids = [id for ids in batch["ids"] for id in (ids if isinstance(ids, list) else [ids])]
        assert len(ids) > len(batch["ids"]) or "pack" not in options
        expected = sum(alone[int(id)] for id in ids) / batch["label_tokens"]
        # Sums of float32 in another order differ by about 1e-6.
        assert loss(model, batch) == pytest.approx(expected, abs=1e-5), kind


def test_balance_counts_the_tokens_that_the_processor_makes_of_images(questions: Path) -> None:
    options: dict[str, Any] = {"pack": True, "batch_size": None, "global_batch_size": 4, "balance": True}
    feed = feed_of(questions, "qwen2-vl", **options)
    whole = feed.batch(0, 0, 1)
    bounds = whole["cu_seqlens"].tolist()
    real = whole["sequence_ids"].reshape(-1)
    own = [after - first for first, after in pairwise(bounds) if real[first]]
    assert len(own) == len(whole["sample_rows"]) and "pixel_values" in whole
    sums = np.bincount(whole["sample_rows"].numpy(), weights=np.square(own), minlength=len(whole["ids"]))
    assert whole["cost"].tolist() == sums.tolist()
    ranks = [feed.batch(0, rank, 2) for rank in range(2)]
    assert sorted(cost for batch in ranks for cost in batch["cost"].tolist()) == sorted(whole["cost"].tolist())


def loss(model: Any, batch: dict[str, Any]) -> float:
    inputs = {name: batch[name] for name in INPUTS if name in batch}
    with torch.no_grad():
        return float(model(**inputs, use_cache=False, num_items_in_batch=batch["label_tokens"]).loss)


def test_the_comparison_would_see_wrong_positions_and_wrong_images(questions: Path) -> None:
    model = MODELS["qwen2-vl"]()
    batch = feed_of(questions, "qwen2-vl", pack=True, batch_size=2).batch(0)
    right = loss(model, batch)
    flat = {**batch, "position_ids": batch["position_ids"][:1].expand(4, -1, -1)}  # images as if they were text
    together = batch["position_ids"].clone()
    together[0] = torch.arange(together.shape[2])  # samples that attend to each other
    swapped = {**batch, "pixel_values": batch["pixel_values"].flip(0)}
    for wrong in (flat, {**batch, "position_ids": together}, swapped):
        assert abs(loss(model, wrong) - right) > 1e-4


def loss_alone(model: Any, family: str, folder: Path, number: int) -> float:
    """The sum of the losses of one record, as the processor and the model make it without us."""
    processor = FAMILIES[family]()
    inputs = processed(family, folder, [number])
    asked = messages(number)[:1]
    prompt = written(family, asked, add_generation_prompt=True).removeprefix(written(family, asked))
    labels = inputs["input_ids"].clone()
    header = processor.tokenizer(prompt, add_special_tokens=False)["input_ids"]
    ids = labels[0].tolist()
    start = next(at for at in range(len(ids)) if ids[at : at + len(header)] == header) + len(header)
    labels[0, :start] = -100
    labels[0, len(ids) - 1 :] = -100  # the line end after the last turn
    with torch.no_grad():
        return float(model(**inputs, labels=labels, num_items_in_batch=1).loss)


def test_threads_and_other_processes_make_the_same_batches(questions: Path) -> None:
    feed = feed_of(questions, "qwen2-vl", pack=True, batch_size=2)
    expected = [feed.batch(step) for step in range(4)]
    FAMILIES["qwen2-vl"]().tokenizer.backend_tokenizer.enable_padding()  # what the trainer does with it is its own
    moved = pickle.loads(pickle.dumps(feed))  # as another process gets it
    loader = feed.loader(threads=3)
    for step, batch in enumerate(expected):
        for other in (next(loader), moved.batch(step)):
            assert all(torch.equal(batch[name], other[name]) for name in INPUTS if name in batch)
            assert (other["ids"], other["text"]) == (batch["ids"], batch["text"])
    loader.close()


def test_positions_are_those_of_the_model(questions: Path) -> None:
    model = MODELS["qwen2-vl"]()
    batch = feed_of(questions, "qwen2-vl", padding="none").batch(2)
    expected = [processed("qwen2-vl", questions.parent, [int(id)]) for id in batch["ids"]]
    found = [
        model.model.get_rope_index(each["input_ids"], each["mm_token_type_ids"], each["image_grid_thw"])[0]
        for each in expected
    ]
    assert torch.equal(batch["position_ids"][1:], torch.cat(found, dim=2))
    assert batch["position_ids"][0, 0].tolist() == [n for each in expected for n in range(each["input_ids"].shape[1])]


def test_positions_of_several_images_go_on_after_the_largest() -> None:
    positions = rope_positions(12, [Medium("image", 1, 5), Medium("image", 6, 8)], [(1, 4, 4), (1, 2, 4)], 2)
    assert positions.tolist() == [
        [0, 1, 1, 1, 1, 3, 4, 4, 6, 7, 8, 9],
        [0, 1, 1, 2, 2, 3, 4, 4, 6, 7, 8, 9],
        [0, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ]
    with pytest.raises(ValueError, match="3 tokens"):
        rope_positions(5, [Medium("image", 1, 4)], [(1, 4, 4)], 2)


@pytest.fixture
def several(tmp_path: Path) -> Path:
    write_questions(tmp_path, 4)
    return tmp_path


def asked(content: str, images: list[str], answer: str = "Yes.") -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": content}, {"role": "assistant", "content": answer}],
        "images": images,
    }


def test_a_cut_goes_before_an_image_and_its_pixels_go_with_it(several: Path) -> None:
    long = {
        "messages": [
            *asked("<image>One?", [])["messages"],
            {"role": "user", "content": "<image>And this one?"},
            {"role": "assistant", "content": "No."},
        ],
        "images": ["0.png", "3.png"],
    }
    path = write_records(several, [long])
    whole = run(path, processor=FAMILIES["qwen2-vl"](), max_length=LENGTH, batch_size=1).batch(0)
    pad = FAMILIES["qwen2-vl"]().image_token_id
    places = np.flatnonzero(whole["input_ids"][0].numpy() == pad)
    second = int(places[np.flatnonzero(np.diff(places) > 1)[0] + 1])
    cut = run(path, processor=FAMILIES["qwen2-vl"](), max_length=second + 1, batch_size=1).batch(0)
    assert cut["input_ids"].shape == (1, second)
    assert cut["image_grid_thw"].tolist() == whole["image_grid_thw"][:1].tolist()
    assert cut["pixel_values"].shape[0] == int(cut["image_grid_thw"].prod()) and cut["image_rows"].tolist() == [0]
    assert torch.equal(cut["pixel_values"], whole["pixel_values"][: len(cut["pixel_values"])])


def test_what_stands_for_an_image_is_never_trained(several: Path) -> None:
    answer = {"messages": [{"role": "user", "content": "Show it."}, {"role": "assistant", "content": "Here: <image>."}]}
    path = write_records(several, [{**answer, "images": ["1.png"]}])
    batch = run(path, processor=FAMILIES["idefics3"](), max_length=LENGTH, batch_size=1).batch(0)
    trained = FAMILIES["idefics3"]().tokenizer.decode(batch["labels"][batch["labels"] != -100])
    assert trained == "Here: .<|im_end|>"


def test_records_whose_placeholders_and_images_differ_are_rejected(several: Path) -> None:
    records = [
        asked("<image><image>Two?", ["0.png"]),
        asked("<image>What is <|image_pad|>?", ["0.png"]),
        asked("What is <|image_pad|>?", []),
        {**asked("<video>What?", []), "videos": ["a.mp4"]},
        asked("<image>", ["gone.png"]),
        asked("<image>Good?", ["1.png"]),
    ]
    feed = run(write_records(several, records), processor=FAMILIES["qwen2-vl"](), max_length=LENGTH, batch_size=1)
    assert feed.batch(0)["ids"] == ["5"]
    reasons = feed.catalog.reader(0)._index.reasons
    assert sum(reasons.values()) == 5
    assert reasons["the template wrote 2 placeholders for 1 media of kind image"] == 1
    assert reasons["the chat template writes nothing for a medium of kind video"] == 1


def test_images_of_a_tar_are_measured_in_the_index(several: Path) -> None:
    with tarfile.open(several / "a.tar", "w") as tar:
        for number in range(3):
            (several / "a.json").write_text(json.dumps({"messages": question(number)["messages"]}))
            tar.add(several / "a.json", f"{number}.json")
            tar.add(several / f"{number}.png", f"{number}.png")
    feed = feed_of(several / "a.tar", "qwen2-vl", batch_size=3, shuffle=False, count_labels=True)
    same = feed_of(write_records(several, map(question, range(3))), "qwen2-vl", batch_size=3, shuffle=False)
    for name in ("input_ids", "labels", "pixel_values", "image_grid_thw"):
        assert torch.equal(feed.batch(0)[name], same.batch(0)[name]), name
    assert feed.catalog.reader(0)._index.group(0).lengths.tolist() == feed.batch(0)["attention_mask"].sum(1).tolist()


def test_images_that_cannot_be_measured_are_counted_by_few_reasons(several: Path) -> None:
    (several / "text.png").write_text("no image")
    names = ["gone.png", "lost.png", "https://a.example/1.png", "https://a.example/2.png", "text.png", "1.png"]
    path = write_records(several, [asked("<image>", [name]) for name in names])
    feed = run(path, processor=FAMILIES["qwen2-vl"](), max_length=LENGTH, batch_size=1)
    assert feed.batch(0)["ids"] == ["5"]
    assert feed.catalog.reader(0)._index.reasons == {
        "names a file that cannot be opened": 2,
        "names a URL, and URLs are not fetched; allow_urls: true allows it": 2,
        "not a JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM, AVIF image": 1,
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_without_images_and_one_with_two_share_a_batch(several: Path, family: str) -> None:
    records = [asked("Nothing?", []), asked("<image> or <image>?", ["0.png", "2.png"])]
    feed = feed_of(write_records(several, records), family, batch_size=2, shuffle=False, count_labels=True)
    batch = feed.batch(0)
    assert batch["image_rows"].tolist() == [1, 1]
    assert not batch["bad"]
    assert feed.catalog.reader(0)._index.group(0).lengths.tolist() == batch["attention_mask"].sum(1).tolist()


def test_a_cut_that_changes_the_tokens_of_images_before_it_leaves_out_the_record(several: Path) -> None:
    one_more = {"messages": [*asked("<image>One?", [])["messages"], {"role": "user", "content": "<image> And this?"}]}
    path = write_records(several, [{**one_more, "images": ["0.png", "3.png"]}, asked("Nothing?", [])])
    whole = feed_of(path, "llava-onevision", batch_size=2, shuffle=False).batch(0)
    first = int((whole["input_ids"][0] == FAMILIES["llava-onevision"]().image_token_id).nonzero()[-1])
    batch = run(path, processor=FAMILIES["llava-onevision"](), max_length=first, batch_size=1, shuffle=False).batch(0)
    assert [bad.reason for bad in batch["bad"]] == [
        "cutting off images with the text changes the tokens of the images before them"
    ]
    assert batch["ids"] == ["1"]


def test_sizes_from_headers_are_those_of_the_pixels(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (40, 20)).save(tmp_path / "turned.jpg", exif=turned)
    Image.new("P", (30, 50)).save(tmp_path / "palette.png")
    for name in ("turned.jpg", "palette.png"):
        data = (tmp_path / name).read_bytes()
        assert image_size(data) == image_pixels(data).shape[:2]
    for value in (np.zeros((5, 7, 3), np.uint8), torch.zeros(3, 5, 7), Image.open(tmp_path / "turned.jpg")):
        assert image_size(value) == image_pixels(value).shape[:2]


def saved(folder: Path, processor: str, images: str) -> Path:
    """A folder as a model on the hub has it."""
    FAMILIES["qwen2-vl"]().tokenizer.save_pretrained(folder)
    config = {"processor_class": processor, "image_processor_type": images}
    (folder / "preprocessor_config.json").write_text(json.dumps(config))
    return folder


def test_a_processor_in_a_folder_is_loaded_or_the_missing_package_is_named(tmp_path: Path) -> None:
    folder = saved(tmp_path, "LlavaProcessor", "CLIPImageProcessor")
    assert type(Processor(str(folder)).load()).__name__ == "LlavaProcessor"
    if find_spec("torchvision") is None:
        with pytest.raises(ConfigError, match=r"\(pip install torchvision\): Qwen2VLVideoProcessor requires"):
            Processor(str(saved(tmp_path, "Qwen2VLProcessor", "Qwen2VLImageProcessor"))).load()


def test_a_processor_that_lacks_a_value_is_an_error_of_the_config(several: Path) -> None:
    incomplete = LlavaProcessor(image_processor=FAMILIES["llava"]().image_processor, tokenizer=tokenizer("<image>"))
    incomplete.chat_template = FAMILIES["llava"]().chat_template
    with pytest.raises(ConfigError, match=r"LlavaProcessor can't process a plain image: .* such as patch_size"):
        run(several / "a.jsonl", processor=incomplete).batch(0)


def test_a_folder_without_a_processor_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no processor in the folder"):
        Processor(str(tmp_path)).load()
    with pytest.raises(ConfigError, match="there is no folder /none/such"):
        Processor("/none/such").load()


def test_a_processor_of_another_source_of_records_stays_apart(several: Path) -> None:
    path = write_records(several, [asked("<image>Good?", ["1.png"])])
    keys = {family: run([source(path)], processor=FAMILIES[family]()).catalog.fingerprints for family in FAMILIES}
    assert len(set(keys.values())) == len(keys)


def test_a_processor_is_known_by_what_it_writes_for_images_and_not_by_its_json() -> None:
    processor = FAMILIES["qwen2-vl"]()
    known = Processor(processor).key
    renamed = copy.deepcopy(processor)
    renamed.image_processor.image_mean = [0.5, 0.5, 0.5]
    assert renamed.image_processor.to_json_string() != processor.image_processor.to_json_string()
    assert Processor(renamed).key == known  # no length depends on it
    larger = copy.deepcopy(processor)
    larger.image_processor.size["longest_edge"] *= 4
    assert Processor(larger).key != known
    assert Processor(FAMILIES["llava"]()).key not in (known, Processor(larger).key)
