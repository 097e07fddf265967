import dataclasses

import pytest

from penstock.curate.speech.rules import MeasuredClip, Rules
from penstock.curate.speech.where import parse_condition
from penstock.media.audio.quality import Quality

GOOD = MeasuredClip("hindi", Quality(seconds=5.0, clipping=0.001, silence=0.2, snr=25.0), {"dnsmos": 3.5})
RULES = Rules((5.0, 5.0), 0.001, 0.2, 25.0, frozenset({"hindi"}), (parse_condition("dnsmos >= 3.5"),))


def broken(**changes: float) -> str:
    drop = RULES.broken_by(dataclasses.replace(GOOD, quality=dataclasses.replace(GOOD.quality, **changes)))
    return drop.rule if drop else ""


def test_bounds_are_inclusive():
    assert RULES.broken_by(GOOD) is None


def test_each_rule_names_itself_and_what_it_found():
    assert broken(seconds=4.99) == "shorter than 5 s"
    assert broken(seconds=5.01) == "longer than 5 s"
    assert broken(clipping=0.002) == "clipping over 0.001"
    assert broken(silence=0.21) == "silence over 0.2"
    assert broken(snr=24.9) == "SNR under 25 dB"
    drop = RULES.broken_by(dataclasses.replace(GOOD, fields={"dnsmos": 3.4}))
    assert drop and (drop.rule, drop.why) == ("where dnsmos >= 3.5", "is 3.4")
    drop = RULES.broken_by(dataclasses.replace(GOOD, language="odia"))
    assert drop and (drop.rule, drop.why) == ("language", "odia")


def test_a_clip_that_breaks_several_rules_is_dropped_for_the_first():
    assert broken(seconds=1.0, snr=0.0, clipping=1.0) == "shorter than 5 s"


def test_without_rules_only_what_no_filelist_can_hold_is_dropped():
    worst = Quality(seconds=0.001, clipping=1.0, silence=1.0, snr=-10.0)
    assert Rules().broken_by(MeasuredClip("x", worst, {})) is None
    assert Rules().broken_by(MeasuredClip("x", dataclasses.replace(worst, seconds=86_401), {})) is not None


@pytest.mark.parametrize(
    "wrong", [{"seconds": (5, 1)}, {"seconds": (-1, 5)}, {"max_clipping": 5}, {"max_silence": -0.1}]
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"share|seconds"):
        Rules(**wrong)
