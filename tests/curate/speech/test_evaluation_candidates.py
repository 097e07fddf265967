"""The choice is by name alone: it does not depend on order, place or what else is there more than it must."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.curate.speech.evaluation.candidates import Candidate, StoredClip, rank, request_of, sample_ids
from penstock.readers.tar.samples import split_name


def candidate(name: str, language: str = "hindi", source: str = "here", size: int = 1) -> Candidate:
    return Candidate(source, name, language, size, lambda _: StoredClip(b"", None), None)


def names(ranked: Sequence[Candidate]) -> list[str]:
    return [one.name for one in ranked]


some_names = st.sets(st.text(min_size=1, max_size=20), min_size=1, max_size=40)


@given(some_names, st.randoms(), st.integers())
def test_the_order_of_the_candidates_does_not_matter(found: set[str], random, seed: int) -> None:
    ordered = sorted(found)
    shuffled = random.sample(ordered, len(ordered))
    assert names(rank(map(candidate, shuffled), seed)["hindi"]) == names(rank(map(candidate, ordered), seed)["hindi"])


@given(some_names, st.text(min_size=1), st.integers(1, 40))
def test_one_more_clip_displaces_at_most_one(found: set[str], new: str, count: int) -> None:
    before = names(rank(map(candidate, sorted(found)), 0)["hindi"])[:count]
    after = names(rank(map(candidate, sorted(found | {new})), 0)["hindi"])[:count]
    assert len(set(before) - set(after)) <= 1
    assert set(after) - set(before) <= {new}


@given(some_names)
def test_ids_are_different_and_are_keys_of_a_tar(found: set[str]) -> None:
    ids = sample_ids([candidate(name) for name in sorted(found)])
    assert len(set(ids)) == len(found)
    assert all(split_name(f"{one}.wav") == (one, "wav") and "/" not in one for one in ids)


def test_a_seed_chooses_others_and_languages_come_by_name() -> None:
    found = [candidate(f"clip {i}", language) for i in range(40) for language in ("odia", "hindi")]
    first, second = rank(found, 0), rank(found, 1)
    assert list(first) == ["hindi", "odia"]
    assert names(first["hindi"]) != names(second["hindi"])
    assert names(first["hindi"]) != names(first["odia"]), "one language's choice does not tell another's"


def test_names_that_come_to_the_same_id_keep_their_own_by_a_hash() -> None:
    ids = sample_ids([candidate("a/b.wav"), candidate("a b.wav"), candidate("c.wav"), candidate("c.wav", source="x")])
    assert len(set(ids)) == 4
    assert all(one.startswith(("a_b_wav-", "c_wav-")) for one in ids)


def test_the_request_changes_with_a_file_a_count_or_a_seed() -> None:
    def request(found: list[Candidate], count: int = 5, seed: int = 0) -> str:
        ranked = rank(found, seed)["hindi"]
        return request_of(ranked, sample_ids(ranked), count)

    found = [candidate(f"clip {i}") for i in range(9)]
    replaced = [*found[1:], candidate("clip 0", size=2)]
    requests = [request(found), request(replaced), request(found[1:]), request(found, 6), request(found, seed=1)]
    assert len(set(requests)) == 5
    assert request(found) == request(found[::-1])


def test_what_cannot_be_told_apart_or_cannot_name_a_file_is_refused() -> None:
    with pytest.raises(ValueError, match="is listed twice"):
        rank([candidate("a"), candidate("a")], 0)
    with pytest.raises(ValueError, match=r"'te/in' becomes a file name"):
        rank([candidate("a", "te/in")], 0)
