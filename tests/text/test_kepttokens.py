"""What an index keeps of an item comes back as it was."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.kepttokens import kept_bytes, kept_tokens
from penstock.text.labels import NO_LABEL, Encoded
from penstock.text.rendered import Medium

IDS = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.booleans()), max_size=20)


@given(IDS, st.booleans(), st.text(max_size=20), st.booleans())
def test_tokens_labels_weights_and_text_come_back(ids, weighted, text, has_image) -> None:
    input_ids = np.array([each for each, _ in ids], dtype=np.int64)
    trained = np.array([each for _, each in ids], dtype=bool)
    labels = np.where(trained, input_ids, NO_LABEL)
    weights = np.where(trained, 0.5, 0.0).astype(np.float32) if weighted else None
    media = (Medium("image", 0, 3),) if has_image else ()
    encoded = Encoded(input_ids, labels, weights, media, media)
    sample = {"dtype": "vision", "has_asr": True, "gen_prompts": "a cat", "messages": [], "tools": [object()]}
    if has_image:
        sample["images"] = [object()]
    text = text.encode(errors="ignore").decode()
    kept = kept_tokens(kept_bytes(sample, text, encoded))
    assert np.array_equal(kept.encoded.input_ids, input_ids)
    assert np.array_equal(kept.encoded.labels, labels)
    assert (kept.encoded.loss_weights is None) == (weights is None)
    assert weights is None or np.array_equal(kept.encoded.loss_weights, weights)
    assert kept.encoded.media == kept.encoded.cut_media == media
    assert kept.text == text
    assert kept.sample == {"dtype": "vision", "has_asr": True, "gen_prompts": "a cat"}
    assert kept.has_media == has_image


def test_a_token_takes_two_bytes_where_all_are_small_and_earlier_items_are_read() -> None:
    ids = np.array([5, 65_535, 7], dtype=np.int64)
    small = kept_bytes({}, "", Encoded(ids, ids))
    large = kept_bytes({}, "", Encoded(ids + 1, ids + 1))
    assert len(large) == len(small) + 2 * 3
    assert large[12] == 0, "as written before there were short ids"
    assert kept_tokens(small).encoded.input_ids.tolist() == ids.tolist()
    assert kept_tokens(large).encoded.input_ids.tolist() == (ids + 1).tolist()
