"""Small chat sources with text, images and sounds, and a tokenizer: generated for ``penstock demo chat``."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.manifest.publish import errors_naming
from penstock.media.audio.wav import wav_bytes

Record = dict[str, Any]

ROLES = ("system", "user", "assistant", "tool", "image", "audio")
TOKENS = {f"{role}_{end}": f"<|{slash}{role}|>" for role in ROLES for end, slash in (("start", ""), ("end", "/"))}
TOKENS |= {"tool_call": "<|call|>", "tool_call_end": "<|/call|>"}
RECORDS = {"sums": 600, "home": 400, "shapes": 300, "tones": 200}
COLORS = {"red": (220, 40, 40), "green": (30, 160, 60), "blue": (40, 70, 220), "yellow": (235, 200, 40)}
SHAPES = ("circle", "square", "cross")
PIXELS = 48
RATE = 16_000
VOCABULARY = 600


def make_chat_data(folder: Path, seed: int = 0) -> Iterator[str]:
    """Write ``<source>.jsonl``, the media that they name, and ``tokenizer/``.

    Args:
        folder: Output folder.
        seed: Seed of the generated records.

    Yields:
        Each source once it is written. The tokenizer is made last.
    """
    made = {"sums": _sum, "home": _order, "shapes": _shape, "tones": _tone}
    texts = []
    for number, (name, make) in enumerate(made.items()):
        random = np.random.default_rng([seed, number])
        (folder / name).mkdir(parents=True, exist_ok=True)
        records = [make(random, folder, f"{name}/{row:04d}") for row in range(RECORDS[name])]
        lines = [json.dumps(record) for record in records]
        with errors_naming(folder / f"{name}.jsonl"):
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        texts += lines
        yield name
    _make_tokenizer(texts, folder / "tokenizer")


def _conversation(question: str, answer: str, **media: list[str]) -> Record:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}], **media}


def _sum(random: np.random.Generator, folder: Path, name: str) -> Record:  # noqa: ARG001
    """One to four questions in a row, so that records differ in length."""
    messages = []
    for _ in range(random.integers(1, 5)):
        first, second = random.integers(0, 10, 2).tolist()
        messages += _conversation(f"What is {first} plus {second}?", f"It is {first + second}.")["messages"]
    return {"messages": messages}


def _order(random: np.random.Generator, folder: Path, name: str) -> Record:  # noqa: ARG001
    """A call of a tool and its answer."""
    room = str(random.choice(["kitchen", "hall", "attic", "garden"]))
    state = str(random.choice(["on", "off"]))
    call = {"name": "light", "arguments": {"room": room, "state": state}}
    turns = [
        ("human", f"Turn the light in the {room} {state}."),
        ("function_call", json.dumps(call)),
        ("observation", "done"),
        ("gpt", f"The light in the {room} is {state} now."),
    ]
    arguments = {"room": {"type": "string"}, "state": {"type": "string"}}
    tool = {"name": "light", "parameters": {"type": "object", "properties": arguments}}
    said = [{"from": role, "value": value} for role, value in turns]
    return {"conversations": said, "tools": json.dumps([tool])}


def _shape(random: np.random.Generator, folder: Path, name: str) -> Record:
    """A picture of a coloured shape."""
    color = str(random.choice(list(COLORS)))
    shape = str(random.choice(SHAPES))
    pixels = np.full((PIXELS, PIXELS, 3), 245, np.uint8)
    center = random.integers(18, 30, 2)
    down, right = np.abs(np.indices((PIXELS, PIXELS)) - center[:, None, None])
    inside = {
        "circle": np.hypot(down, right) < 13,
        "square": np.maximum(down, right) < 12,
        "cross": (np.minimum(down, right) < 4) & (np.maximum(down, right) < 15),
    }
    pixels[inside[shape]] = COLORS[color]
    from penstock.media.image.file import png_bytes  # imports Pillow

    path = f"{name}.png"
    with errors_naming(folder / path):
        (folder / path).write_bytes(png_bytes(pixels))
    return _conversation("<image>What is in the picture?", f"A {color} {shape}.", images=[path])


def _tone(random: np.random.Generator, folder: Path, name: str) -> Record:
    """A tone that rises, falls, or stays as it is."""
    moves = {"rises": (300.0, 900.0), "falls": (900.0, 300.0), "stays": (600.0, 600.0)}
    move = str(random.choice(list(moves)))
    first, last = moves[move]
    pitches = np.linspace(first, last, RATE // 2) * random.uniform(0.9, 1.1)
    sound = 0.5 * np.sin(2 * np.pi * np.cumsum(pitches) / RATE)
    path = f"{name}.wav"
    with errors_naming(folder / path):
        (folder / path).write_bytes(wav_bytes(sound.astype(np.float32), RATE))
    return _conversation("<audio>What does the tone do?", f"It {move}.", audios=[path])


def _make_tokenizer(texts: Sequence[str], folder: Path) -> None:
    """Train a byte-level tokenizer, as those of Llama 3 and Qwen are, and save it as transformers does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    fast: Any = PreTrainedTokenizerFast
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|end|>", *TOKENS.values()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    tokenizer = fast(tokenizer_object=backend, eos_token="<|end|>", pad_token="<|end|>")
    with errors_naming(folder):
        tokenizer.save_pretrained(folder)
