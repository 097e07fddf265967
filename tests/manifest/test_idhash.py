import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.manifest.idhash import BLOCK_ROWS, hash_id, hash_ids

NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@given(st.lists(NAMES, max_size=50))
def test_many_strings_hash_as_each_does_alone(names: list[str]) -> None:
    assert hash_ids(pa.array(names, type=pa.large_string())).tolist() == [hash_id(name) for name in names]


# "", "a", "clip-0001" and a name outside ASCII, hashed when the format was made.
GOLDEN = [6399302013398953127, 14438532352981958533, 2059593397903485562, 7832260870817702879]


def test_the_hash_is_part_of_the_format_and_stays() -> None:
    assert [int(hash_id(name)) for name in ("", "a", "clip-0001", "ಕನ್ನಡ/ಧ್ವನಿ")] == GOLDEN


def test_a_slice_hashes_like_a_copy() -> None:
    names = pa.array([f"clip{number}" for number in range(100)], type=pa.large_string())
    assert hash_ids(names[40:60]).tolist() == hash_ids(names)[40:60].tolist()


def test_blocks_do_not_show() -> None:
    names = [f"{number}" for number in range(BLOCK_ROWS + 5)]
    hashes = hash_ids(pa.array(names, type=pa.large_string()))
    assert len(set(hashes.tolist())) == len(names)
    assert hashes[BLOCK_ROWS + 1] == hash_id(names[BLOCK_ROWS + 1])


def test_trailing_zero_bytes_count() -> None:
    assert len({int(hash_id("a" + "\0" * zeros)) for zeros in range(20)}) == 20
