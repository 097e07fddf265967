"""Placeholders become all the tokens of a medium, and what is trained moves with the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.errors import Rejected
from penstock.text.expanding import expanded
from penstock.text.rendered import Rendered, TextSpan

TOKENS = {"image": "<i>", "video": "<v>"}


def test_spans_and_media_are_where_the_text_moved_to() -> None:
    text = "ask <i> and <v>: said <i> it"
    before = Rendered(text, (TextSpan(16, len(text), 0.5),), bos=False)
    after = expanded(before, TOKENS, {"image": ["[II]", "[I]"], "video": ["[V]"]})
    assert after.text == "ask [II] and [V]: said [I] it"
    assert [after.text[start:end] for _, start, end in after.media] == ["[II]", "[V]", "[I]"]
    assert [medium.kind for medium in after.media] == ["image", "video", "image"]
    assert [(after.text[span.start : span.end], span.weight) for span in after.spans] == [(" said ", 0.5), (" it", 0.5)]
    assert after.bos is False


@pytest.mark.parametrize("given_images", [0, 1, 3])
def test_another_number_of_media_than_placeholders_is_rejected(given_images: int) -> None:
    with pytest.raises(Rejected, match=f"2 placeholders .* {given_images} media of kind image"):
        expanded(Rendered("<i> <i>", ()), TOKENS, {"image": ["x"] * given_images})


def test_a_text_without_media_stays_as_it_is() -> None:
    before = Rendered("said", (TextSpan(0, 4),))
    assert expanded(before, TOKENS, {}) is before


pieces = st.lists(st.sampled_from(["a", "bc", "<i>", "<v>", "d"]), max_size=12)


@given(pieces, st.data())
def test_trained_characters_are_the_same_but_for_placeholders(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    edges = [0]
    for part in parts:
        edges.append(edges[-1] + len(part))
    start, end = sorted(data.draw(st.tuples(st.sampled_from(edges), st.sampled_from(edges))))
    spans = (TextSpan(start, end),) if start < end else ()
    texts = {kind: [f"[{kind}{n}]" for n in range(parts.count(token))] for kind, token in TOKENS.items()}
    after = expanded(Rendered(text, spans), TOKENS, texts)
    trained = "".join(after.text[span.start : span.end] for span in after.spans)
    assert trained == text[start:end].replace("<i>", "").replace("<v>", "")
    assert len(after.media) == parts.count("<i>") + parts.count("<v>")
