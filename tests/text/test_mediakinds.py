"""The table of media kinds against the places that write its keys out: the type of samples, formats, and tokens."""

from typing import get_args

import pytest

from penstock.text.formats import Sample
from penstock.text.formats.builtin import BUILTIN
from penstock.text.formats.document import DOCUMENT
from penstock.text.formats.sample import FLAGS, Kind
from penstock.text.mediakinds import GEN_AUDIO, IN_TEXT, MEDIA_KINDS, PICTURES, SOUNDS, SPEAKER

OTHER_KEYS = {"messages", "text", "tools", "gen_prompts", "dtype", *FLAGS}
TOKENS = {key: f"<{key}>" for each in BUILTIN for key in each.tokens}


def test_a_sample_has_a_key_for_every_kind_and_no_other_media() -> None:
    assert {kind.sample_key for kind in MEDIA_KINDS} == set(Sample.__annotations__) - OTHER_KEYS


def test_parts_of_messages_are_the_kinds_that_stand_in_the_text() -> None:
    assert tuple(kind.name for kind in IN_TEXT) == get_args(Kind)


@pytest.mark.parametrize("field", ["name", "sample_key", "document_key", "batch_key", "rows_key", "lengths_key"])
def test_no_two_kinds_share_a_key(field: str) -> None:
    assert len({getattr(kind, field) for kind in MEDIA_KINDS}) == len(MEDIA_KINDS)


def test_every_kind_is_a_picture_or_a_sound() -> None:
    assert sorted((*PICTURES, *SOUNDS), key=MEDIA_KINDS.index) == list(MEDIA_KINDS)
    assert [kind for kind in MEDIA_KINDS if kind.is_single] == [GEN_AUDIO, SPEAKER]


def test_format_functions_of_the_document_return_media_under_the_keys_of_the_table() -> None:
    record = {"image": b"i", "video": None, "audio": b"a", "speaker_ref": b"s", "text": "Hi."}
    filmed = {**record, "video": b"v"}
    made = [each.function(given, TOKENS) or {} for each in DOCUMENT.values() for given in (record, filmed)]
    found = {key for sample in made for key, value in sample.items() if isinstance(value, bytes)}
    assert found == {kind.document_key for kind in MEDIA_KINDS}
