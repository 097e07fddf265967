"""Elements: all text is escaped, in content and in attributes, and control characters are visible."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.page.markup import Markup, element, joined, text
from tests.observe.page.pages import Page


def test_texts_are_escaped_and_elements_are_not() -> None:
    made = element("p", "a<b>", element("i", "&", title='"x"'), None, ["c", ("d",)], class_="e", hidden=True, id=None)
    assert made == '<p class="e" hidden>a&lt;b&gt;<i title="&quot;x&quot;">&amp;</i>cd</p>'
    assert element("img", src="x", alt_text="y") == '<img src="x" alt-text="y">'
    assert isinstance(joined("a"), Markup) and joined("a", Markup("<b>")) == "a<b>"


def test_control_characters_and_marks_of_direction_are_shown_and_joiners_are_kept() -> None:
    assert text("a\x1b[31m\u202eb\ud800\n\t") == "a\\x1b[31m\\u202eb\\ud800\n\t"
    assert text("क्\u200dष 👩\u200d👩") == "क्\u200dष 👩\u200d👩"


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs", "Cf", "Zl", "Zp")), max_size=40))
def test_a_parser_reads_back_what_was_written(value: str) -> None:
    page = Page(str(element("p", value, title=value)))
    [(tag, attributes, texts)] = page.elements
    assert (tag, attributes, "".join(texts)) == ("p", {"title": value}, value)
