"""The chat recipe through a whole run: records in files, batches out."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from penstock.config import ConfigError
from penstock.manifest.errors import ManifestError
from penstock.observe.actual import Actual
from penstock.observe.proof import differences
from penstock.readers.errors import ContentError
from tests.recipes.chat_runs import (
    MAX_LENGTH,
    RECORDS,
    TOKENIZER,
    question,
    run,
    source,
    spans,
    tokenizer,
    write_records,
)
from tests.recipes.chat_runs import write_questions as write
from tests.text.rendering import TOKENS

END = TOKENS["assistant_end"]
ROWS: dict[str, dict[str, Any]] = {
    "longest": {},
    "max_length": {"padding": "max_length"},
    "padding-free": {"padding": "none"},
    "packs": {"pack": True},
    "flat packs": {"pack": True, "flat": True},
}


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("questions"))


def answer(number: int) -> str:
    return str(question(number)["messages"][1]["content"])


def numbers(batch: dict[str, Any]) -> list[int]:
    """The records of a batch, in order."""
    return [int(id) for ids in batch["ids"] for id in (ids if isinstance(ids, list) else [ids])]


@pytest.mark.parametrize("kind", ROWS)
def test_every_kind_of_row_holds_the_same_tokens_labels_and_images(questions: Path, kind: str) -> None:
    feed = run(questions, **ROWS[kind])
    packed = "pack" in ROWS[kind]
    batch = feed.batch(1)
    made = spans(batch)
    assert [trained for _, trained in made] == [answer(number) + END for number in numbers(batch)]
    assert [text for text, _ in made] == batch["text"]
    assert batch["label_tokens"] == int((batch["labels"] != -100).sum())
    samples = len(numbers(batch))
    assert samples == 4 or (packed and samples > 4)
    assert batch["images"].shape == (samples, 3, 8, 8)
    rows = [row for row, ids in enumerate(batch["ids"]) for _ in (ids if packed else [ids])]
    assert batch["image_rows"].tolist() == batch["sample_rows"].tolist() == rows
    assert batch["dtype"] == ["vision"] * samples
    feed.close()


def test_the_shapes_of_rows_are_those_that_were_asked_for(questions: Path) -> None:
    shapes = {kind: run(questions, **options).batch(0)["input_ids"].shape for kind, options in ROWS.items()}
    assert shapes["max_length"] == shapes["packs"] == (4, MAX_LENGTH)
    assert shapes["flat packs"] == (1, 4 * MAX_LENGTH)
    assert shapes["longest"][0] == 4 and shapes["longest"][1] < MAX_LENGTH
    assert shapes["padding-free"][0] == 1
    assert run(questions, pad_to_multiple_of=64).batch(0)["input_ids"].shape == (4, 64)
    assert run(questions, pad_to_multiple_of=64, padding="none").batch(0)["input_ids"].shape[1] % 64 == 0


def test_positions_of_packs_start_again_with_every_sample(questions: Path) -> None:
    batch = run(questions, pack=True).batch(0)
    bounds = batch["cu_seqlens"].tolist()
    expected = np.concatenate([np.arange(b - a) for a, b in pairwise(bounds)])
    assert batch["position_ids"].reshape(-1).tolist() == expected.tolist()
    assert batch["max_seqlen"] == max(np.diff(bounds))
    counts = [len(ids) for ids in batch["ids"]]
    assert [int(row.max()) for row in batch["sequence_ids"]] == counts


def test_an_epoch_of_packs_has_every_record_once_and_the_next_one_deals_them_anew(questions: Path) -> None:
    feed = run(questions, pack=True, batch_size=1)
    packs = feed.catalog.amounts["items"][0]
    epochs = [[feed.batch(step)["ids"][0] for step in range(start, start + packs)] for start in (0, packs)]
    for epoch in epochs:
        assert sorted(int(id) for ids in epoch for id in ids) == list(range(RECORDS))
    assert {frozenset(ids) for ids in epochs[0]} != {frozenset(ids) for ids in epochs[1]}


def test_where_finds_the_pack_of_a_record_in_every_epoch(questions: Path) -> None:
    feed = run(questions, pack=True)
    for epoch, (name, use) in enumerate(feed.where("a.jsonl:7", range(3))):
        ids = feed.batch(use.step)["ids"][use.slot]
        assert "7" in ids
        assert (use.epoch, name) == (epoch, "a.jsonl:" + "+".join(ids))


def test_a_member_of_a_pack_whose_image_is_broken_becomes_padding(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "7.png").write_bytes(b"no image")
    feed = run(path, pack=True, usage={"log": tmp_path / "usage.jsonl", "every": 1})
    [(_, use)] = feed.where("a.jsonl:7")
    loader = feed.loader(use.step, threads=0)
    batch = next(loader)
    loader.close()
    [bad] = batch["bad"]
    ids = batch["ids"][use.slot]
    assert (bad.slot, bad.id, bad.outcome, bad.member) == (use.slot, "7", "padded", ids.index("7"))
    assert "image" in bad.reason
    left = [answer(number) + END for number in numbers(batch) if number != 7]
    assert [trained for _, trained in spans(batch)] == left
    assert batch["input_ids"].shape == (4, MAX_LENGTH)
    [line] = map(json.loads, (tmp_path / "usage.jsonl").read_text().splitlines())
    assert [(each["id"], each["outcome"]) for each in line["bad"]] == [("7", "padded")]
    actual = Actual(feed, tmp_path / "usage.jsonl")
    other = next(id for id in ids if id != "7")
    for id, outcome in (("7", "bad"), (other, "used")):
        [(name, found, what)] = actual.uses_of(f"a.jsonl:{id}", 1, 1)
        assert (name, found, what) == ("a.jsonl:" + "+".join(ids), use, outcome)
    assert differences(feed, line) == []  # a padded member is no substitution
    # What was planned is the same on every rank; what is there is less.
    assert batch["label_tokens"] < batch["global_label_tokens"]


def test_a_record_whose_image_is_broken_is_replaced_where_rows_are_samples(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "7.png").write_bytes(b"no image")
    feed = run(path)
    [(_, use)] = feed.where("a.jsonl:7")
    batch = feed.batch(use.step)
    [bad] = batch["bad"]
    assert (bad.id, bad.outcome, bad.member) == ("7", "replaced", None)
    assert "7" not in batch["ids"] and len(spans(batch)) == 4
    with pytest.raises(ContentError, match="image"):
        run(path, on_error="raise").batch(use.step)


@pytest.mark.parametrize("options", [{"pack": True}, {"count_labels": True}, {"count_labels": True, "padding": "none"}])
def test_every_rank_knows_the_labels_of_all_ranks(questions: Path, options: dict[str, Any]) -> None:
    feed = run(questions, global_batch_size=6, batch_size=None, **options)
    for step in (0, 5):
        ranks = [feed.batch(step, rank, 3) for rank in range(3)]
        total = sum(batch["label_tokens"] for batch in ranks)
        assert {batch["global_label_tokens"] for batch in ranks} == {total}


def test_labels_of_all_ranks_cost_nothing_where_nobody_asked_for_them(questions: Path) -> None:
    assert "global_label_tokens" not in run(questions).batch(0)


def test_a_limit_bounds_what_an_epoch_uses_also_of_packs(questions: Path) -> None:
    feed = run([source(questions, limit=6)], batch_size=1)
    used = [int(feed.batch(step)["ids"][0]) for step in range(6)]
    assert len(set(used)) == 6
    packed = run([source(questions, limit=12)], pack=True, batch_size=1)
    whole = run(questions, pack=True, batch_size=1)
    packs = whole.catalog.amounts["items"][0]
    assert packed.catalog.limits == (12 * packs // RECORDS,)
    first = [packed.batch(step)["ids"][0] for step in range(packed.catalog.limits[0] or 0)]
    assert 6 <= sum(map(len, first)) <= 18
    assert len({id for ids in first for id in ids}) == sum(map(len, first))


def test_what_is_held_out_is_in_no_training_batch_and_all_of_it_in_the_evaluation(tmp_path: Path) -> None:
    records = [{**question(number), "id": f"q{number}"} for number in range(80)]
    for record in records:
        record["images"] = []
        record["messages"][0]["content"] = record["messages"][0]["content"].removeprefix("<image>")
    path = write_records(tmp_path, records)
    training = run([source(path, "conversation")], holdout=0.2)
    evaluation = run([source(path, "conversation")], holdout=0.2, only_holdout=True, passes=1)
    steps = training.catalog.amounts["items"][0] // 4
    seen = {number for step in range(steps) for number in numbers(training.batch(step))}
    held = [number for step in evaluation.remaining() for number in numbers_of(evaluation.batch(step))]
    assert len(held) == len(set(held)) and 4 < len(held) < 32
    assert seen.isdisjoint(held) and len(seen) > 40
    assert training.catalog.amounts["items"][0] + len(held) == 80
    # The same records in another order and another file are on the same side: they have ids.
    moved = write_records(tmp_path, records[::-1], "b.jsonl")
    again = run([source(moved, "conversation")], holdout=0.2, only_holdout=True, passes=1)
    other = [number for step in again.remaining() for number in numbers_of(again.batch(step))]
    assert {79 - number for number in other} == set(held)


def numbers_of(batch: dict[str, Any]) -> list[int]:
    return [int(id) for id, valid in zip(batch["ids"], batch["valid"], strict=True) if valid]


def test_rows_of_padding_in_a_finite_run_hold_nothing(questions: Path) -> None:
    feed = run(questions, passes=1, batch_size=5)
    batch = feed.batch(RECORDS // 5)
    assert batch["valid"].tolist() == [True] * 4 + [False]
    assert batch["text"] == [text for text, _ in spans(batch)]
    assert batch["attention_mask"][4].sum() == 0 and (batch["labels"][4] == -100).all()
    assert batch["sample_rows"].tolist() == [0, 1, 2, 3] and len(batch["text"]) == 4


@pytest.mark.parametrize("kind", ROWS)
def test_a_batch_whose_media_all_fail_in_a_finite_run_is_empty_and_says_so(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path)
    feed = run(path, passes=1, max_bad=1.0, **ROWS[kind])
    for number in range(RECORDS):
        (tmp_path / f"{number}.png").write_bytes(b"no image")
    batch = feed.batch(0)
    assert batch["label_tokens"] == 0 and (batch["labels"] == -100).all()
    assert batch["input_ids"].numel() > 0 and batch["text"] == []
    if "pack" in ROWS[kind]:
        assert [bad.outcome for bad in batch["bad"]] == ["padded"] * len(numbers(batch))
    else:
        assert [bad.outcome for bad in batch["bad"]] == ["empty"] * 4 and not batch["valid"].any()
    assert [each.getMessage() for each in caplog.records if each.name == "penstock.feed.making"] == [
        "step 0: the batch of this rank has no sample: the mean of its losses is NaN; "
        "divide their sum by a number over all ranks, such as global_label_tokens"
    ]


@pytest.mark.parametrize("kind", ["longest", "max_length", "padding-free"])
def test_a_rank_without_a_row_in_the_short_last_batch_of_an_epoch_gets_a_batch_all_the_same(
    questions: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = {"mixture": {"rounds": {"max_per_epoch": 9}}, "count_labels": True}
    feed = run(questions, global_batch_size=8, batch_size=None, **rounds, **ROWS[kind])
    ranks = [feed.batch(1, rank, 4) for rank in range(4)]
    assert sorted(len(batch["ids"]) for batch in ranks) == [0, 0, 0, 1]
    for batch in ranks:
        assert batch["label_tokens"] == (batch["global_label_tokens"] if batch["ids"] else 0)
        assert batch["input_ids"].shape[1] > 0
    assert "step 1: the batch of this rank has no sample" in caplog.text


@pytest.mark.parametrize("kind", ROWS)
def test_the_loss_over_all_labels_is_right_on_every_rank_also_on_one_that_has_only_padding(
    questions: Path, kind: str
) -> None:
    torch.manual_seed(0)
    logits = torch.nn.Embedding(len(TOKENIZER), len(TOKENIZER))
    world = RECORDS + 1
    feed = run(questions, passes=1, global_batch_size=2 * world, batch_size=None, count_labels=True, **ROWS[kind])
    step = len(feed) - 1

    def loss(batch: dict[str, Any]) -> torch.Tensor:
        own = logits(batch["input_ids"][:, :-1]).flatten(0, 1)
        total = torch.nn.functional.cross_entropy(own, batch["labels"][:, 1:].flatten(), reduction="sum")
        return total / batch["global_label_tokens"]

    ranks = [feed.batch(step, rank, world) for rank in range(world)]
    assert any(not batch["valid"].any() for batch in ranks)
    losses = torch.stack([loss(batch) for batch in ranks])
    assert torch.isfinite(losses).all()
    torch.testing.assert_close(losses.sum(), loss(feed.batch(step, 0, 1)))


def conversation(*turns: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"messages": list(turns), **keys}


def said(role: str, content: str, **keys: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **keys}


TWO_TURNS = [said("user", "One?"), said("assistant", "1"), said("user", "Two?"), said("assistant", "2")]


def trained(tmp_path: Path, record: dict[str, Any], **options: Any) -> dict[str, Any]:
    path = write_records(tmp_path, [record])
    keys = options.pop("source", {})
    return run([source(path, "conversation", **keys)], batch_size=1, **options).batch(0)


def test_train_on_chooses_the_turns(tmp_path: Path) -> None:
    record = conversation(*TWO_TURNS)
    assert spans(trained(tmp_path, record))[0][1] == f"1{END}2{END}"
    assert spans(trained(tmp_path, record, train_on="last"))[0][1] == f"2{END}"
    text, all_of_it = spans(trained(tmp_path, record, train_on="all"))[0]
    assert TOKENS["user_start"] + all_of_it == text  # but the first token, which nothing predicts


def test_a_message_says_itself_whether_it_is_trained_and_with_which_weight(tmp_path: Path) -> None:
    untrained = conversation(*TWO_TURNS[:3], said("assistant", "2", train=False))
    assert spans(trained(tmp_path, untrained))[0][1] == f"1{END}"
    halved = trained(tmp_path, conversation(*TWO_TURNS[:3], said("assistant", "2", loss_weight=0.5)))
    weights = halved["loss_weights"][0]
    labels = halved["labels"][0]
    assert set(weights[labels != -100].tolist()) == {1.0, 0.5} and (weights[labels == -100] == 0).all()
    assert "loss_weights" not in trained(tmp_path, conversation(*TWO_TURNS))
    packed = trained(tmp_path, conversation(*TWO_TURNS[:3], said("assistant", "2", weight=0.25)), pack=True)
    assert set(packed["loss_weights"].unique().tolist()) == {0.0, 0.25, 1.0}


def test_a_source_has_a_system_message_of_its_own(tmp_path: Path) -> None:
    [(text, _)] = spans(trained(tmp_path, conversation(*TWO_TURNS), source={"system": "Be brief."}))
    assert text.startswith(f"{TOKENS['system_start']}Be brief.{TOKENS['system_end']}")


def test_what_is_too_long_is_cut_before_an_image_or_dropped(tmp_path: Path) -> None:
    write(tmp_path, 2)
    long = conversation(
        *TWO_TURNS[:2], said("user", f"{'word ' * 60}<image>"), said("assistant", "3"), images=["0.png"]
    )
    short = conversation(*TWO_TURNS)
    path = write_records(tmp_path, [long, short])
    cut = run([source(path, "conversation")], batch_size=2, max_length=48, shuffle=False).batch(0)
    assert cut["attention_mask"].sum(1).tolist()[0] == 48 and "images" not in cut
    assert [trained for _, trained in spans(cut)] == [f"1{END}", f"1{END}2{END}"]
    dropped = run([source(path, "conversation")], batch_size=2, max_length=48, shuffle=False, too_long="drop").batch(0)
    assert dropped["ids"] == ["1", "1"]
    # The run of an image is two tokens here: a cut that would go through it goes before it.
    whole = trained(tmp_path, {**long, "messages": [*long["messages"][:2], said("user", "<image>"), TWO_TURNS[3]]})
    place = whole["input_ids"][0].tolist().index(TOKENIZER.convert_tokens_to_ids(TOKENS["image_start"]))
    path = write_records(
        tmp_path, [{**long, "messages": [*long["messages"][:2], said("user", "<image>"), TWO_TURNS[3]]}]
    )
    before = run([source(path, "conversation")], batch_size=1, max_length=place + 1).batch(0)
    assert before["input_ids"].shape == (1, place) and "images" not in before


def test_a_record_without_anything_to_train_on_is_no_item(tmp_path: Path) -> None:
    silent = conversation(TWO_TURNS[0], said("assistant", "1", train=False))
    path = write_records(tmp_path, [silent, conversation(*TWO_TURNS), silent])
    feed = run([source(path, "conversation")], batch_size=1)
    assert feed.catalog.amounts["items"] == [1]
    assert feed.catalog.reader(0)._index.reasons == {"nothing to train on": 2}


def test_a_chat_template_that_hides_what_is_said_is_an_error_at_the_start(tmp_path: Path) -> None:
    path = write_records(tmp_path, [conversation(*TWO_TURNS)])
    hiding = tokenizer()
    hiding.chat_template = "{% for message in messages %}{{ message.content | upper }}{% endfor %}"
    with pytest.raises(ManifestError, match="1 × the chat template hides what is trained"):
        run([source(path, "conversation")], tokenizer=hiding, tokens=None).batch(0)


def test_options_that_contradict_each_other_are_named(questions: Path) -> None:
    for options, key in (
        ({"only_holdout": True}, "only_holdout"),
        ({"pack": True, "padding": "max_length"}, "padding"),
        ({"flat": True}, "flat"),
        ({"pack": True, "pad_to_multiple_of": 64}, "pad_to_multiple_of"),
        ({"processor": object(), "tokens": TOKENS}, "processor"),
        ({"tokens": {key: value for key, value in TOKENS.items() if key != "image_start"}}, "image_start"),
        ({"tokens": None}, "chat template"),
        ({"tokenizer": None}, "chat.tokenizer"),
        ({"tokenizer": "./no-such-folder"}, "there is no folder ./no-such-folder"),
        ({"tokenizer": str(Path(__file__).parent)}, "there is no tokenizer in the folder"),
        ({"tokenizer": __file__}, "is a file; name the folder that it is in"),
        ({"tokenizer": object()}, "need a fast tokenizer"),
        ({"image_processor": "./no-such-folder"}, "chat.image_processor: there is no folder ./no-such-folder"),
    ):
        with pytest.raises(ConfigError, match=key):
            run(questions, **options).batch(0)


def test_weights_by_tokens_draw_long_texts_as_often_as_they_are_long(tmp_path: Path) -> None:
    short = write_records(tmp_path, [conversation(said("user", "a"), said("assistant", "b"))] * 8, "short.jsonl")
    long = write_records(
        tmp_path, [conversation(said("user", "a " * 9), said("assistant", "b " * 20))] * 8, "long.jsonl"
    )
    sources = [source(path, "conversation") for path in (short, long)]
    feed = run(sources, mixture={"weights": "tokens"}, batch_size=8)
    drawn = Counter(name for step in range(20) for name in feed.batch(step)["sources"])
    tokens = dict(zip(feed.catalog.sources, feed.catalog.amounts["tokens"], strict=True))
    assert drawn["long"] / drawn["short"] == pytest.approx(tokens["long"] / tokens["short"], rel=0.1)


def test_rounds_take_turns_and_without_a_shuffle_records_come_in_order(questions: Path, tmp_path: Path) -> None:
    other = write_records(tmp_path, [conversation(*TWO_TURNS)] * 5, "b.jsonl")
    sources = [source(questions), source(other, "conversation")]
    feed = run(sources, mixture="rounds", shuffle=False)
    assert [(feed.batch(step)["sources"], feed.batch(step)["ids"]) for step in (0, 1)] == [
        (["a", "b", "a", "b"], ["0", "0", "1", "1"]),
        (["a", "b", "a", "b"], ["2", "2", "3", "3"]),
    ]


def spoken(samples: list[float]) -> dict[str, Any]:
    return {"array": samples, "sampling_rate": 16_000}


def test_all_that_a_sample_has_reaches_the_batch(tmp_path: Path) -> None:
    write(tmp_path, 2)
    sound = [0.0, 0.25, -0.25, 0.5] * 400
    speech = write_records(
        tmp_path,
        [
            {"text": "hello", "audio": spoken(sound[:800])},
            {"text": "hello", "audio": spoken(sound), "speaker_ref": spoken(sound[:400])},
        ],
        "speech.jsonl",
    )
    pictures = write_records(tmp_path, [{"prompt": "a sea", "image": "0.png"}], "pictures.jsonl")
    heard = write_records(tmp_path, [{"transcription": "hi", "audio": spoken(sound)}], "heard.jsonl")
    sources = [source(speech, "voice_tts"), source(pictures, "image_generation"), source(heard, "voice_asr")]
    feed = run(sources, mixture="rounds", shuffle=False, batch_size=6)
    batch = feed.batch(0)
    assert batch["dtype"] == ["voice_tts", "image_generation", "voice_asr"] * 2
    assert batch["target_audio"].shape == (2, 1600) and batch["target_audio_lengths"].tolist() == [800, 1600]
    assert (batch["target_audio_rows"].tolist(), batch["gen_image_rows"].tolist()) == ([0, 3], [1, 4])
    assert batch["audio_rows"].tolist() == [2, 5] and batch["audio_lengths"].tolist() == [1600, 1600]
    assert batch["gen_images"].shape == (2, 3, 8, 8)
    assert batch["speaker_ref"].shape == (1, 400) and batch["speaker_ref_rows"].tolist() == [3]
    assert batch["gen_prompts"] == [None, "a sea", None] * 2
    assert (batch["has_tts"], batch["has_image_gen"], batch["has_asr"], batch["has_video_gen"]) == (
        True,
        True,
        True,
        False,
    )
    mel = run(sources[2:], use_raw_waveform=False, batch_size=1).batch(0)
    assert mel["audio"].shape[:2] == (1, 80)


def test_videos_are_files_animations_and_lists_of_frames(tmp_path: Path) -> None:
    write(tmp_path, 3)
    frames = [Image.new("RGB", (16, 16), (40 * n, 0, 0)) for n in range(3)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    listed = {"video": ["0.png", "1.png"], "caption": "two frames"}
    seen = write_records(tmp_path, [{"video": "moving.gif", "caption": "it moves"}, listed], "seen.jsonl")
    wanted = write_records(tmp_path, [{"prompt": "a wave", "video": "moving.gif"}], "wanted.jsonl")
    sources = [source(seen, "video_caption"), source(wanted, "video_generation")]
    batch = run(sources, mixture="rounds", shuffle=False, video_size=8, max_video_frames=4).batch(0)
    assert not batch["bad"]
    assert batch["videos"].shape == batch["gen_videos"].shape == (2, 4, 3, 8, 8)
    assert (batch["video_rows"].tolist(), batch["gen_video_rows"].tolist()) == ([0, 2], [1, 3])
    assert torch.equal(batch["videos"][1, 1], batch["videos"][1, 3])  # the last frame, repeated
    assert batch["has_video_gen"] and batch["gen_prompts"] == [None, "a wave"] * 2


def test_an_image_processor_is_named_by_its_folder_and_keeps_its_size(questions: Path, tmp_path: Path) -> None:
    processor = CLIPImageProcessorPil(size={"shortest_edge": 20}, crop_size={"height": 12, "width": 16})
    processor.save_pretrained(tmp_path)
    batch = run(questions, image_processor=str(tmp_path), image_size=None).batch(0)
    assert batch["images"].shape == (4, 3, 12, 16)
    image = Image.open(questions.parent / f"{batch['ids'][0]}.png")
    assert torch.equal(batch["images"][0], processor(image, return_tensors="pt").pixel_values[0])
    with pytest.raises(ConfigError, match=r"chat.image_processor: .*nowhere"):
        run(questions, image_processor=str(tmp_path / "nowhere")).batch(0)


def test_a_url_in_a_record_is_refused_and_the_refusal_names_the_switch(tmp_path: Path) -> None:
    write(tmp_path, 2)
    path = write_records(tmp_path, [question(0) | {"images": ["https://example.com/a.png"]}, question(1)])
    batch = run(path, batch_size=2, shuffle=False).batch(0)
    [bad] = batch["bad"]
    assert "allow_urls: true" in bad.reason and batch["ids"] == ["1", "1"]
