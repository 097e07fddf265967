"""Message trees: the paths from the root to an answer, by rank."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.errors import Rejected
from penstock.text.formats import find
from penstock.text.formats.trees import best_path, conversations, paths


def row(name: str, parent: str | None, rank: int | None = None, tree: str = "t", **keys: Any) -> dict[str, Any]:
    """A message whose name says its depth, such as `a`, `ab`, `aba`: odd ones ask, even ones answer."""
    role = "prompter" if len(name) % 2 else "assistant"
    ids = {"message_id": name, "parent_id": parent, "message_tree_id": tree}
    return {**ids, "role": role, "text": f"says {name}", "rank": rank, "deleted": False, **keys}


ROWS = [
    row("aca", "ac"),
    row("ac", "a", rank=1),
    row("ab", "a", rank=0),
    row("a", None),
    row("aba", "ab"),
    row("abaa", "aba"),
    row("abb", "ab"),
    row("ad", "a"),
    row("ae", "a", rank=2, deleted=True),
    row("aea", "ae"),
    row("aeaa", "aea"),
]


def names(path: list[dict[str, Any]]) -> list[str]:
    return [message["content"].removeprefix("says ") for message in path]


def test_paths_end_with_an_answer_and_come_by_rank() -> None:
    assert [names(path) for path in paths(ROWS)] == [["a", "ab", "aba", "abaa"], ["a", "ac"], ["a", "ad"]]


def test_rows_of_several_trees_may_be_mixed() -> None:
    other = [row("x", None, tree="u"), row("xy", "x", tree="u")]
    found = list(conversations([other[0], *ROWS, other[1]]))
    assert [record["message_tree_id"] for record in found] == ["u", "t", "t", "t"]
    assert names(found[0]["messages"]) == ["x", "xy"]
    sample = find("conversation")(found[1], {})
    assert [message["role"] for message in sample["messages"]] == ["user", "assistant", "user", "assistant"]


def nested(name: str) -> dict[str, Any]:
    [own] = [each for each in ROWS if each["message_id"] == name]
    replies = [nested(each["message_id"]) for each in ROWS if each["parent_id"] == name]
    return {key: value for key, value in own.items() if key not in ("parent_id", "message_tree_id")} | {
        "replies": replies
    }


@pytest.mark.parametrize(
    "record", [{"message_tree_id": "t", "prompt": nested("a")}, {"messages": ROWS}, {"conversation": ROWS}]
)
def test_a_record_that_is_a_tree_becomes_its_best_conversation(record: dict[str, Any]) -> None:
    sample = find("conversation")(record, {})
    assert [message["content"] for message in sample["messages"]] == ["says a", "says ab", "says aba", "says abaa"]


def test_a_single_message_of_a_tree_is_no_conversation() -> None:
    with pytest.raises(Rejected, match=r"^a single message of a tree$"):
        find("conversation")(ROWS[0], {})


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ([row("a", None)], "no assistant turn"),
        ([], "no assistant turn"),
        ([{"parent_id": None}], "a broken message tree"),
        ([{"parent_id": None, "message_id": [1], "role": "assistant", "text": ""}], "a broken message tree"),
        ({"role": "prompter", "text": "a", "replies": 5}, "no assistant turn"),
        ({"role": "prompter", "replies": [{"role": "assistant", "text": "b"}]}, "a broken message tree"),
    ],
)
def test_a_tree_without_a_conversation_has_a_reason(tree: Any, reason: str) -> None:
    with pytest.raises(Rejected, match=f"^{reason}$"):
        best_path(tree)


def test_ids_that_could_make_a_circle_are_refused() -> None:
    twice = [row("a", None), row("aa", "a"), {**row("aaa", "aa"), "message_id": "a"}]
    for rows in (twice, [{**row("aa", None), "message_id": None}]):
        with pytest.raises(Rejected, match=r"^a broken message tree$"):
            best_path(rows)


@given(st.lists(st.tuples(st.integers(0, 30), st.none() | st.integers(0, 3)), max_size=25))
def test_every_answer_lies_on_a_path_and_no_path_begins_another(links: list[tuple[int, int | None]]) -> None:
    rows = [row("r", None)]
    for parent, rank in links:
        above = rows[parent % len(rows)]["message_id"]
        rows.append(row(f"{above}{chr(ord('a') + len(rows))}", above, rank))
    found = [tuple(names(path)) for path in paths(rows)]
    assert {name for path in found for name in path if len(name) % 2 == 0} == {
        each["message_id"] for each in rows if each["role"] == "assistant"
    }
    assert all(a == b or b[: len(a)] != a for a in found for b in found) and len(set(found)) == len(found)
