"""Marks: put around what messages say, and taken out of a text again."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.text.trained.marks import (
    ALONE,
    Marking,
    Spot,
    begins_with_mark,
    ends_with_mark,
    mark_alone,
    marked,
    unmarked,
)
from tests.text.conversations import assistant, call, user

EVERY = Marking(range(9), empty=True)


def test_only_chosen_messages_get_marks() -> None:
    assert marked([user("Hi"), assistant("Yes")], Marking([1], empty=True)) == [
        user("Hi"),
        assistant("zqo1x0oqzYeszqc1x0cqz"),
    ]


def test_marks_stand_inside_of_whitespace() -> None:
    assert marked([user("\n Hi ")], EVERY)[0]["content"] == "\n zqo0x0oqzHizqc0x0cqz "


def test_reasoning_parts_and_names_of_calls_get_marks_of_their_own() -> None:
    parts = [{"type": "image"}, {"type": "text", "text": "See"}]
    [message] = marked([assistant(parts, reasoning_content="Hm", tool_calls=[call("look")])], EVERY)
    assert message["reasoning_content"] == "zqo0x0oqzHmzqc0x0cqz"
    assert message["content"] == [{"type": "image"}, {"type": "text", "text": "zqo0x1oqzSeezqc0x1cqz"}]
    assert message["tool_calls"][0]["function"]["name"] == "zqo0xf2oqzlookzqc0xf2cqz"


def test_reasoning_in_tags_is_a_fragment_apart() -> None:
    [message] = marked([assistant("<think>Hm</think>Yes")], Marking([0], empty=False))
    assert message["content"] == "<think>zqo0x0oqzHmzqc0x0cqz</think>zqo0x1oqzYeszqc0x1cqz"


def test_a_text_without_marks_and_where_its_messages_stand() -> None:
    written = "<user>zqo0x0oqzHizqc0x0cqz<bot>zqo1x0oqzNozqc1x0cqz, zqo1x1oqznozqc1x1cqz."
    assert unmarked(written) == ("<user>Hi<bot>No, no.", [Spot(0, 6, 8), Spot(1, 13, 19)])


def test_tool_calls_are_counted_and_a_fragment_that_comes_again_is_not() -> None:
    written = "zqo0xf0oqzlookzqc0xf0cqz() -> zqo0xf0oqzlookzqc0xf0cqz"
    assert unmarked(written) == ("look() -> look", [Spot(0, 0, 4, calls=1)])


@given(st.lists(st.text(), max_size=4))
def test_marks_change_nothing_but_themselves(contents: list[str]) -> None:
    written = "|".join(message["content"] for message in marked([user(each) for each in contents], EVERY))
    assert unmarked(written)[0] == "|".join(contents)


def test_whether_the_first_and_the_last_mark_stand_at_the_ends_of_a_message() -> None:
    assert begins_with_mark(user("Hi ")) and not ends_with_mark(user("Hi "))
    assert ends_with_mark(user(" Hi")) and not begins_with_mark(user(" Hi"))
    assert not begins_with_mark(assistant("<think>Hm</think>")) and not ends_with_mark(assistant("<think>Hm</think>"))


def test_a_message_that_is_nothing_but_a_mark() -> None:
    assert mark_alone(user("Hi")) == user(ALONE)
    assert mark_alone(user([{"type": "image"}])) == user([{"type": "text", "text": ALONE}])
