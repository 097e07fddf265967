"""Compare what every built-in format makes of some records with outputs.json, which pins it for its version.

A state and an index know a built-in format by its version alone. So where a sample changes, the ``version`` of the
format in ``builtin.py`` or ``document.py`` has to be raised. ``python -m tests.text.formats.outputs --write`` then
writes the file anew; say so in the CHANGELOG, as running trainings lose their checkpoints.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from penstock.text.errors import Rejected
from penstock.text.formats.builtin import BUILTIN
from penstock.text.formats.document import DOCUMENT
from penstock.text.formats.format import Format
from tests.text.rendering import TOKENS

GOLDEN = Path(__file__).with_suffix(".json")
FIXTURES = Path(__file__).parents[2] / "data" / "chat" / "fixtures"
FORMATS = {each.dtype: each for each in BUILTIN} | {f"document {dtype}": each for dtype, each in DOCUMENT.items()}

_TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
_CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
_TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
_SHAPES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "text": {"text": "A cat."},
    "empty text": {"text": ""},
    "messages": {"messages": _TURNS},
    "system": {"messages": [{"role": "system", "content": "Be brief."}, *_TURNS]},
    "sharegpt": {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
    "messages as text": {"messages": json.dumps(_TURNS)},
    "unknown role": {"messages": [*_TURNS, {"role": "critic", "content": "No."}]},
    "not trained": {"messages": [_TURNS[0], {**_TURNS[1], "train": False}, *_TURNS]},
    "weighted": {"messages": [_TURNS[0], {**_TURNS[1], "weight": 0.5}]},
    "history": {"history": [["Hi", "Hello"]], "instruction": "And now?", "output": "Now this."},
    "alpaca": {"instruction": "Add.", "input": "1 2", "output": "3", "system": "You count."},
    "code": {"prompt": "Write f.", "code": "def f(): ...", "language": "python"},
    "reasoning": {"question": "1 + 1?", "reasoning": "One and one.", "answer": "2"},
    "think": {"messages": [_TURNS[0], {"role": "assistant", "content": "<think>Hm.</think>Hello"}]},
    "reasoning content": {"messages": [_TURNS[0], {**_TURNS[1], "reasoning_content": "Hm."}]},
    "reasoning part": {
        "messages": [_TURNS[0], {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}]}]
    },
    "tool call": {
        "messages": [_TURNS[0], {"role": "assistant", "content": "", "tool_calls": [_CALL]}],
        "tools": _TOOLS,
    },
    "tool answer": {
        "messages": [
            _TURNS[0],
            {"role": "assistant", "tool_calls": [_CALL]},
            {"role": "tool", "content": "1"},
            _TURNS[1],
        ]
    },
    "tools as text": {"query": "Call f.", "tools": json.dumps(_TOOLS), "answers": json.dumps([{"name": "f"}])},
    "chosen": {"prompt": "Hi", "chosen": "Hello", "rejected": "Bye"},
    "chosen turns": {"chosen": _TURNS, "rejected": _TURNS[:1]},
    "labelled false": {"prompt": "Hi", "completion": "Hello", "label": False},
    "choices": {"question": "Which?", "choices": ["a", "b"], "answer": 1},
    "tree": {"prompt": {"text": "Hi", "role": "prompter", "replies": [{"text": "Hello", "role": "assistant"}]}},
    "commit": {"message": "Repair f", "old_contents": "a", "new_contents": "b", "diff": "-a\n+b"},
    "image": {"image": "1.png", "question": "What?", "answer": "A cat."},
    "images in turns": {"messages": [{"role": "user", "content": "<image>What?"}, _TURNS[1]], "images": ["1.png"]},
    "image part": {
        "messages": [{"role": "user", "content": [{"type": "image", "image": "1.png"}, {"type": "text", "text": "?"}]}]
    },
    "caption": {"image": "1.png", "caption": ["A cat.", "A pet."]},
    "edit": {"source_image": "1.png", "edited_image": "2.png", "instruction": "Make it blue."},
    "video": {"video": "1.mp4", "question": "What?", "answer": "A cat."},
    "video by its id": {"video_id": "v_1", "caption": "A cat runs."},
    "speech": {"audio": "1.wav", "text": "A cat."},
    "speaker": {"audio": "1.wav", "text_normalized": "A cat", "speaker_ref": "2.wav"},
    "prompt": {"prompt": "A cat.", "image": "1.png"},
    "first frame": {"prompt": "It runs.", "image": "1.png", "video": "1.mp4"},
}


def records() -> dict[str, dict[str, Any]]:
    """Return records by name: one shape each, and those of real datasets."""
    found = dict(_SHAPES)
    for path in sorted(FIXTURES.iterdir()):
        for number, record in enumerate(json.loads(path.read_text()), 1):
            found[f"{path.stem} {number}"] = record
    return found


def made(used: Format) -> dict[str, Any]:
    """Return what is pinned of a format: its version, and digests of its samples by the name of the record."""
    outputs = {"": _digest([used.system, used.media])}
    for name, record in records().items():
        both = [_sample(used, record, tokens) for tokens in ({}, TOKENS)]
        if any(sample is not None for sample in both):
            outputs[name] = _digest(both)
    return {"version": used.version, "outputs": outputs}


def _sample(used: Format, record: dict[str, Any], tokens: dict[str, str]) -> Any:
    try:
        return used(record, tokens)
    except Rejected:
        return None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=repr).encode()).hexdigest()[:6]


def read() -> dict[str, dict[str, Any]]:
    pinned: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())
    return pinned


def changed(pinned: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return the names of the records of which a format makes something else than the golden file pins."""
    names = pinned["outputs"].keys() | found["outputs"].keys()
    return sorted(name for name in names if pinned["outputs"].get(name) != found["outputs"].get(name))


def write() -> None:
    """Write the file, unless a format has other samples and the same version."""
    found = {name: made(used) for name, used in FORMATS.items()}
    pinned = read() if GOLDEN.exists() else {}
    for name in found.keys() & pinned.keys():
        if found[name]["version"] == pinned[name]["version"] and changed(pinned[name], found[name]):
            sys.exit(f"the samples of {name!r} changed: raise its version first")
    lines = (f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in found.items())
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write()
