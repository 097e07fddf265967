"""What applies at which step of a run that was changed on the way."""

from hypothesis import given
from hypothesis import strategies as st

from course import Change, Course, Settings, from_records, to_records  # isort: skip

START = Course(Settings(lr=1.0, log_every=10), ({"at": 0, "weights": "hours"},))
CHANGES = st.lists(
    st.builds(Change, step=st.integers(0, 20), key=st.just("lr"), value=st.floats(1e-6, 1))
    | st.builds(Change, step=st.integers(0, 20), key=st.just("log_every"), value=st.integers(1, 9))
    | st.builds(Change, step=st.integers(0, 20), key=st.sampled_from(["pause", "stop", "refused"]), value=st.just(True))
)


@given(CHANGES, st.integers(0, 25))
def test_the_last_change_up_to_a_step_applies(changes: list[Change], step: int) -> None:
    course = START
    for change in changes:
        course = course.changed(change)
    expected = {"lr": 1.0, "log_every": 10}
    for now in range(step + 1):  # as a run lives through it
        expected |= {change.key: change.value for change in changes if change.step == now and change.key in expected}
    assert course.at(step) == Settings(**expected)


@given(CHANGES)
def test_changes_survive_their_record(changes: list[Change]) -> None:
    assert list(from_records(to_records(changes))) == changes


def test_mixtures_are_ordered_by_sample_and_a_later_order_replaces_one_for_the_same() -> None:
    course = START
    for at, weights in ((80, "equal"), (40, "items"), (80, {"odia": 1})):
        course = course.changed(Change(at // 4, "mixture", {"at": at, "weights": weights}))
    assert [(m["at"], m["weights"]) for m in course.mixtures()] == [(0, "hours"), (40, "items"), (80, {"odia": 1})]
