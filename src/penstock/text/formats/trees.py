"""Message trees, as OpenAssistant's: a conversation is a path from the root to an answer, best replies first."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.text.errors import Rejected

Row = Mapping[str, Any]

_NOT_RANKED = 1 << 30


def conversations(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield the conversations of a table of messages, as records that the format ``conversation`` accepts.

    Args:
        rows: Messages of any number of trees, in any order, each with ``message_id``, ``parent_id``,
            ``message_tree_id``, ``role`` and ``text``. Those that are ``deleted`` are left out with their replies.

    Yields:
        One record per path that ends with an answer which has no answered replies, tree by tree in the order of the
        rows, with ``message_tree_id`` and ``messages``.
    """
    trees: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        trees[row["message_tree_id"]].append(row)
    for tree, messages in trees.items():
        for path in paths(messages):
            yield {"message_tree_id": tree, "messages": path}


def paths(rows: Iterable[Row]) -> list[list[dict[str, Any]]]:
    """Return the conversations of one tree, the one with the best replies first.

    Replies are ordered by ``rank`` (0 is the best; those without one follow), then as they stand in the rows.

    Raises:
        Rejected: If a message lacks an id of its own, a role or a text.
    """
    try:
        return _paths(list(rows))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Rejected("a broken message tree") from None


def best_path(tree: Any) -> list[dict[str, Any]]:
    """Return the conversation with the best replies.

    Args:
        tree: Rows of one tree, or its root as a dict with nested ``replies``.

    Raises:
        Rejected: If the tree has no answer, or a message lacks an id of its own, a role or a text.
    """
    found = paths(_flat(tree) if isinstance(tree, Mapping) else tree)
    if not found:
        raise Rejected("no assistant turn")
    return found[0]


def _paths(rows: list[Row]) -> list[list[dict[str, Any]]]:
    if len({None, *(row["message_id"] for row in rows)}) <= len(rows):
        raise ValueError("an id that occurs twice, or none, could make a circle")
    replies: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if not row.get("deleted"):
            replies[row.get("parent_id")].append(row)
    for each in replies.values():
        each.sort(key=_rank)
    found = []
    waiting = [[root] for root in reversed(replies[None])]
    while waiting:
        path = waiting.pop()
        children = replies[path[-1]["message_id"]]
        waiting += [[*path, child] for child in reversed(children)]
        answered = any(replies[child["message_id"]] for child in children)
        if path[-1]["role"] == "assistant" and not answered:
            found.append([{"role": each["role"], "content": each["text"]} for each in path])
    return found


def _rank(row: Row) -> int:
    rank = row.get("rank")
    return _NOT_RANKED if rank is None else int(rank)


def _flat(root: Row) -> list[Row]:
    """Return the rows of a nested tree, with numbers as ids."""
    rows: list[Row] = []
    waiting: list[tuple[int | None, Row]] = [(None, root)]
    while waiting:
        parent, message = waiting.pop()
        replies = message.get("replies")
        if isinstance(replies, list):
            waiting += [(len(rows), reply) for reply in reversed(replies) if isinstance(reply, Mapping)]
        rows.append({**message, "message_id": len(rows), "parent_id": parent})
    return rows
