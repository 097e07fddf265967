"""Compare the order of some small runs with order.json, which pins it: a run must not change with numpy or with us.

Needs only numpy and the sources: ``PYTHONPATH=src python tests/golden/check.py``. With ``--write`` it writes the file
anew; do that only where a change of the order is meant, and say so in the CHANGELOG, as running trainings lose theirs.
"""

import json
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from penstock.plan.bylength import ByLength, WindowCut
from penstock.plan.draws import Ints, key, permutation, permutations, words
from penstock.plan.endless import Endless
from penstock.plan.excluding import Excluded
from penstock.plan.finite import Finite
from penstock.plan.mixture import Mixture
from penstock.plan.order import Planned, Source
from penstock.plan.plan import Plan
from penstock.plan.rounds import Rounds, granted
from penstock.plan.schedule import make_schedule
from penstock.plan.timeline import Timeline
from penstock.plan.weights import shared_residents, slot_counts, stages, temper
from penstock.plan.windowtimeline import WindowSegment, WindowTimeline

GOLDEN = Path(__file__).with_name("order.json")
HOURS = {"english": 10002, "telugu": 9123, "hindi": 9054, "punjabi": 8917, "malayalam": 7842, "gujarati": 6875}
HOURS |= {"kannada": 6263, "tamil": 5195, "bengali": 2981, "marathi": 2579, "odia": 2199, "assamese": 617}
SEED = 7


def digest(*arrays: Ints) -> str:
    """A short hash of integers, the same on every machine."""
    return sha256(b"".join(array.astype("<i8").tobytes() for array in arrays)).hexdigest()[:16]


def digest_of(planned: Planned) -> str:
    return digest(planned.slot, planned.source, planned.epoch, planned.repeat, planned.group, planned.item)


def sizes(name: str, groups: int, least: int, most: int) -> Ints:
    """Uneven groups without a generator."""
    return least + (words(key("sizes", name), np.arange(groups)) % np.uint64(most - least + 1)).astype(np.int64)


def draws() -> dict[str, object]:
    keys = words(key(SEED, "several"), np.arange(5))
    return {
        "key": key(SEED, "stream", "hindi", 3),
        "words": words(key(SEED, "words"), np.array([0, 1, 2, 2**40])).tolist(),
        "permutation": permutation(key(SEED, "permutation"), 24).tolist(),
        "permutations": permutations(keys, np.array([4, 1, 0, 7, 3])).tolist(),
        "large permutation": digest(permutation(key(SEED, "large"), 100_000)),
    }


def schedules() -> dict[str, object]:
    found: dict[str, object] = {"small": make_schedule((3, 1, 0, 2)).source.tolist()}
    for temperature in (1.0, 0.5, 0.0):
        counts = slot_counts(temper(HOURS, temperature), lanes=8)
        schedule = make_schedule(tuple(counts.values()))
        found[f"hours, temperature {temperature}"] = {
            "counts": list(counts.values()),
            "source": digest(schedule.source),
            "strided by 8": digest(schedule.strided(8).source),
        }
    return found


def one_lane() -> Endless:
    sources = [Source("hindi", sizes("hindi", 9, 1, 12)), Source("odia", sizes("odia", 4, 3, 5))]
    return Endless(sources, Mixture([(0, (3, 1))], 1), residents=3, seed=SEED)


def three_lanes() -> Endless:
    """Two sources that are dealt to lanes and a small one that is not."""
    sources = [Source(name, sizes(name, 14, 200, 300)) for name in ("hindi", "tamil")]
    sources.append(Source("odia", sizes("odia", 5, 1, 9)))
    return Endless(sources, Mixture([(0, (4, 5, 1))], 3), residents=4, seed=SEED)


def change_of_mixture() -> Endless:
    sources = [Source(name, sizes(name, 6, 2, 9)) for name in ("hindi", "tamil", "odia")]
    mixture = Mixture([(0, (2, 1, 0)), (50, (1, 1, 1)), (101, (0, 1, 4))], 2)
    return Endless(sources, mixture, residents=2, seed=SEED)


def later_source() -> Endless:
    """A source that comes in the middle of a batch, in stages; two lanes split the others."""
    sources = [Source(name, sizes(name, 14, 200, 300)) for name in ("hindi", "tamil", "odia")]
    before, after = {"hindi": 3, "tamil": 2, "odia": 0}, {"hindi": 3, "tamil": 2, "odia": 4}
    mixtures = [before, *(slot_counts(weights, 2) for weights in stages(before, after, 3)), after]
    changes = [(at, tuple(counts.values())) for at, counts in zip((0, 41, 70, 99), mixtures, strict=True)]
    return Endless(sources, Mixture(changes, 2), residents=3, seed=SEED)


def pool_total() -> Endless:
    """Six groups over all sources, shared by weight: 4, 1 and, from its own mixture on, 2."""
    sources = [Source(name, sizes(name, 9, 2, 30)) for name in ("hindi", "tamil", "odia")]
    changes = [(0, (4, 1, 0)), (60, (1, 1, 1))]
    return Endless(sources, Mixture(changes, 2), residents=shared_residents(changes, 6, 5), seed=SEED)


def limits_and_repeats() -> Endless:
    sources = [Source("hindi", sizes("hindi", 9, 1, 12), limit=20), Source("odia", sizes("odia", 4, 3, 5), repeat=3)]
    return Endless(sources, Mixture([(0, (1, 1))], 1), residents=3, seed=SEED)


def file_order() -> Endless:
    sources = [Source("hindi", sizes("hindi", 9, 1, 12), shuffled=False)]
    sources.append(Source("odia", sizes("odia", 4, 3, 5), limit=7, repeat=3, shuffled=False))
    return Endless(sources, Mixture([(0, (3, 1))], 1), residents=3, seed=SEED, arranged=False)


def rounds(shuffled: bool) -> Endless:
    names = ("hindi", "odia", "tamil")
    sources = [Source(name, sizes(name, 5, 2, 9), repeat=2, shuffled=shuffled) for name in names]
    counts = granted([None, 4, 9], ("a", "b", "a"), max_per_modality={"a": 11}, max_per_epoch=14)
    return Endless(sources, Rounds(counts, repeat=2), residents=3, seed=SEED, arranged=False)


def excluding(shuffled: bool) -> Endless:
    """Two lanes; a group is excluded whole, and some items later, in the middle of an epoch."""
    sources = [Source("hindi", sizes("hindi", 14, 200, 300), shuffled=shuffled)]
    sources.append(Source("odia", sizes("odia", 4, 3, 5), repeat=2, shuffled=shuffled))
    whole = np.arange(sources[0].known_sizes()[3])
    some = np.arange(0, 200, 7)
    first = Excluded(
        np.concatenate([np.full_like(whole, 3), np.full_like(some, 5)]),
        np.concatenate([whole, some]),
        np.concatenate([np.zeros_like(whole), np.full_like(some, 900)]),
        sources[0].known_sizes(),
    )
    second = Excluded(np.array([1, 2]), np.array([0, 1]), np.array([0, 40]), sources[1].known_sizes())
    mixture = Mixture([(0, (2, 1))], 2 if shuffled else 1)
    return Endless(sources, mixture, residents=3, seed=SEED, arranged=shuffled, excluded={0: first, 1: second})


def finite() -> Finite:
    sources = [Source("hindi", sizes("hindi", 5, 1, 9)), Source("odia", sizes("odia", 3, 2, 4))]
    return Finite(sources, passes=2, residents=3, seed=SEED)


def run(order: Endless | Finite) -> dict[str, object]:
    """Some batches in full, a stretch of slots and a far one by their digests, uses of an item, substitutes."""
    plan, timeline = Plan(order), Timeline.constant(12).changed(3, 6)
    last = plan.steps(timeline)
    found: dict[str, object] = {}
    for step in (0, 1, 3) if last is None else (0, last - 1):
        batch = plan.batch(step, 0, 1, timeline)
        columns = (batch.slot, batch.source, batch.epoch, batch.repeat, batch.group, batch.item)
        found[f"batch {step}"] = [list(row) for row in zip(*(c.tolist() for c in columns), strict=True)]
    uses = plan.uses(0, 1, 0, range(6), world=3, timeline=timeline)
    found["uses"] = [[use.epoch, use.step, use.rank, use.slot] for use in uses]
    if isinstance(order, Finite):
        found["all slots"] = digest_of(order.look_up(np.arange(order.length)))
        return found
    found["slots from 0"] = digest_of(order.look_up(np.arange(20_000)))
    found["slots from 10**12"] = digest_of(order.look_up(10**12 + np.arange(2_000)))
    stand_ins = [order.stand_in(30, attempt) for attempt in range(4)]
    found["stand-ins"] = [[int(one.group[0]), int(one.item[0])] for one in stand_ins]
    return found


def lengths(planned: Planned) -> tuple[Ints, Ints]:
    """Lengths from 1 to 40 without a generator; sources count for two budgets in turn."""
    code = planned.source * 1_000_003 + planned.group * 1_009 + planned.item
    return (words(key("lengths"), code) % np.uint64(40)).astype(np.int64) + 1, planned.source % 2


def by_length(
    order: Endless | Finite, lanes: int = 1, excluded: Mapping[int, Excluded] | None = None
) -> dict[str, object]:
    """Windows, a change of budget and units within one, and what is longer than the budget."""
    windows = ByLength(order, lengths, lanes=lanes, seed=SEED, alone=False, excluded=excluded)
    first = WindowSegment(0, 0, 2 * lanes, (90, 120), 96, 1)
    first = first._replace(steps=windows.steps_per_window(first, 0))
    timeline = WindowTimeline((first,), order.length)
    used = WindowCut(windows, timeline).opened(5).used_before(5)
    changed = WindowSegment(5, used, lanes, (39, 60), 48, first.steps)
    timeline = WindowTimeline((first, changed), order.length)
    cut = WindowCut(windows, timeline)
    plan = Plan(order, windows=windows, epoch=order.length)
    steps = range(30) if order.length is None else range(plan.steps(timeline) or 0)
    found: dict[str, object] = {"segments": [segment.listed() for segment in timeline.segments]}
    for step in (0, 5):
        found[f"units {step}"] = [cut.slots([step])[0].tolist(), cut.opened(step).units(step).tolist()]
    found["steps"] = digest(*cut.slots(steps))
    found["items"] = digest_of(plan.batches(steps, 0, 1, timeline))
    slot = int(cut.slots([2])[0][0])
    found["stand-ins"] = [each and digest_of(each) for each in (cut.stand_in(slot, number) for number in range(1, 5))]
    return found


def half_excluded(known: Ints) -> dict[int, Excluded]:
    """Every other item of the first source: half of them from the start on, the others since slot 200."""
    group = np.repeat(np.arange(len(known)), known)
    item = np.arange(known.sum()) - np.repeat(np.cumsum(known) - known, known)
    chosen = np.arange(0, len(group), 2)
    return {0: Excluded(group[chosen], item[chosen], chosen % 4 // 2 * 200, known)}


def everything() -> dict[str, dict[str, object]]:
    """All that is pinned, by name."""
    return {
        "draws": draws(),
        "schedules": schedules(),
        "one lane": run(one_lane()),
        "three lanes": run(three_lanes()),
        "change of mixture": run(change_of_mixture()),
        "later source": run(later_source()),
        "pool total": run(pool_total()),
        "limits and repeats": run(limits_and_repeats()),
        "finite": run(finite()),
        "file order": run(file_order()),
        "rounds": run(rounds(shuffled=True)),
        "rounds in file order": run(rounds(shuffled=False)),
        "lengths, one lane": by_length(one_lane()),
        "lengths, three lanes": by_length(three_lanes(), 3),
        "lengths, change of mixture": by_length(change_of_mixture(), 2),
        "lengths, finite": by_length(finite()),
        "lengths, excluded items": by_length(one_lane(), excluded=half_excluded(sizes("hindi", 9, 1, 12))),
        "lengths, finite, excluded items": by_length(finite(), excluded=half_excluded(sizes("hindi", 5, 1, 9))),
        "excluded items": run(excluding(shuffled=True)),
        "excluded items in file order": run(excluding(shuffled=False)),
    }


def differences(pinned: dict[str, dict[str, object]], found: dict[str, dict[str, object]]) -> list[str]:
    names = sorted({(part, name) for side in (pinned, found) for part in side for name in side[part]})
    return [f"{p}: {n}" for p, n in names if pinned.get(p, {}).get(n) != found.get(p, {}).get(n)]


def as_text(found: dict[str, dict[str, object]]) -> str:
    """One name a line, so that a diff of the file shows what moved."""
    parts = []
    for part, entries in found.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items()]
        parts.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: list[str]) -> int:
    text = as_text(everything())
    if arguments == ["--write"]:
        GOLDEN.write_text(text)
        return 0
    wrong = differences(json.loads(GOLDEN.read_text()), json.loads(text))
    for name in wrong:
        print(f"the order differs from {GOLDEN.name}: {name}", file=sys.stderr)
    print(f"golden order, numpy {np.__version__}: {'DIFFERS' if wrong else 'the same'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
