"""Which fields batches of several datasets have."""

import pytest

from penstock.config import ConfigError
from penstock.readers.lerobot.moment import Field
from penstock.recipes.robot_fields import Fields, Stacked, stacked_fields

STATE = Field("float32", (6,), None)
INDEX = Field("int64", (1,), None)
WIDE = Field("camera", (48, 64, 3), None)
SMALL = Field("camera", (24, 32, 3), None)
DEPTH = Field("depth", (48, 64, 1), None)


def stacked(
    datasets: dict[str, Fields], keys: list[str] | None = None, resize: tuple[int, int] | None = None
) -> Stacked:
    return stacked_fields(datasets, keys=keys, deltas=(), resize=resize)


def test_fields_are_those_that_all_datasets_have() -> None:
    found = stacked({"a": {"top": WIDE, "state": STATE, "index": INDEX}, "b": {"state": STATE, "index": INDEX}})
    assert found == Stacked({"state": STATE, "index": INDEX}, ())


def test_named_fields_are_those_and_the_columns_that_say_which_frame_it_is() -> None:
    datasets = {"a": {"top": WIDE, "state": STATE, "index": INDEX}, "b": {"state": STATE, "index": INDEX}}
    assert stacked(datasets, ["top"]) == Stacked({"top": WIDE, "index": INDEX}, ("top",))


def test_cameras_of_any_size_are_stacked_after_resizing() -> None:
    found = stacked({"a": {"top": WIDE}, "b": {"top": SMALL}}, resize=(10, 20))
    assert found.fields["top"].shape == (10, 20, 3)


@pytest.mark.parametrize(
    ("other", "advice"),
    [(SMALL, "set robot.resize"), (DEPTH, "rename one of them"), (STATE, "rename one of them")],
)
def test_fields_that_differ_are_refused_with_both_descriptions(other: Field, advice: str) -> None:
    with pytest.raises(ConfigError) as error:
        stacked({"a": {"top": WIDE}, "b": {"top": other}})
    assert "robot: 'top' is camera [48, 64, 3] in a and " in str(error.value)
    assert f"{other.kind} {list(other.shape)} in b" in str(error.value) and advice in str(error.value)


def test_resizing_is_no_advice_where_it_is_done_already() -> None:
    with pytest.raises(ConfigError, match="rename one of them"):
        stacked({"a": {"top": WIDE}, "b": {"top": WIDE._replace(shape=(48, 64, 1))}}, resize=(8, 8))


def test_a_key_that_no_dataset_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"robot.keys: no source has a feature 'stat'; did you mean state"):
        stacked({"a": {"state": STATE}}, ["stat"])
    with pytest.raises(ConfigError, match=r"robot.delta_timestamps: no source has a feature 'zebra'; there are state"):
        stacked_fields({"a": {"state": STATE}}, keys=None, deltas=["zebra"], resize=None)


@pytest.mark.parametrize("name", ["task", "ids", "rows", "state_is_pad", "top_is_missing"])
def test_a_feature_with_the_name_of_another_field_of_batches_is_refused(name: str) -> None:
    windowed = STATE._replace(frames=2)
    with pytest.raises(ConfigError, match=f"a feature is named '{name}', as another field of batches; rename it"):
        stacked(
            {"a": {"state": windowed, name: INDEX, "top": WIDE}, "b": {"state": windowed, name: INDEX}},
            [name, "state", "top"],
        )


def test_a_feature_may_be_named_as_marks_that_no_window_has() -> None:
    assert set(stacked({"a": {"state": STATE, "state_is_pad": INDEX}}).fields) == {"state", "state_is_pad"}


@pytest.mark.parametrize(
    ("keys", "why"), [(None, "b has no such feature; name it"), (["state"], "it is not one of robot.keys; name it")]
)
def test_a_window_of_a_feature_that_batches_would_not_have_is_refused(keys: list[str] | None, why: str) -> None:
    datasets = {"a": {"top": WIDE, "state": STATE}, "b": {"state": STATE}}
    with pytest.raises(ConfigError, match=f"delta_timestamps: batches would have no 'top': {why} in robot.keys"):
        stacked_fields(datasets, keys=keys, deltas=["top"], resize=None)
