"""Arrow gives all records of a table the same keys, with nulls where a record has none. Samples do not change."""

from typing import Any

import pyarrow as pa

from penstock.text.formats import find

PLACE = {"type": "string", "description": "A town."}
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"town": PLACE}, "required": ["town"]}}
NOW = {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}
ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


RECORDS: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Rain here?"}]},
            {"role": "assistant", "tool_calls": [call("weather", town="Oslo")]},
            {"role": "tool", "content": [{"type": "text", "text": "wet"}], "tool_call_id": "c1", "name": "weather"},
            {"role": "assistant", "content": [{"type": "text", "text": "Yes."}], "reasoning_content": "It is wet."},
        ],
        "tools": [{"type": "function", "function": WEATHER}, {"type": "function", "function": NOW}],
        "images": ["1.png"],
    },
    {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "1 + 2?"}]},
            {"role": "assistant", "tool_calls": [call("add", a=1, b=2)], "train": False},
            {"role": "assistant", "content": [{"type": "text", "text": "3"}], "weight": 0.5},
        ],
        "tools": [{"type": "function", "function": ADD}],
    },
]


def test_a_table_of_conversations_with_tools_and_media_gives_the_same_samples() -> None:
    table = pa.Table.from_pylist(RECORDS)
    read = table.to_pylist()
    added = read[1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert added == {"town": None, "a": 1, "b": 2}, "Arrow adds keys"
    used = find("vision")
    samples = [used(record, {}) for record in RECORDS]
    assert [used(record, {}) for record in read] == samples
    assert samples[1]["messages"][1]["tool_calls"] == [call("add", a=1, b=2)]
    assert samples[0]["tools"][0]["function"] == WEATHER
