"""What a ledger reports of one step: whether it was made, and which samples were bad. Reads no data."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.feed import Feed
from penstock.feed.batches import BadSample
from penstock.observe.actual import Actual
from penstock.observe.lines import BadEntry, LedgerLine, line_timeline


@dataclass(frozen=True)
class LedgeredStep:
    """The lines of a ledger that contain a step, by rank."""

    step: int
    lines: dict[int, LedgerLine]

    @classmethod
    def of(cls, feed: Feed, actual: Actual, step: int, world: int) -> "LedgeredStep":
        """Find the lines of a step.

        Raises:
            ValueError: If the step was made with another number of ranks or another batch size.
        """
        lines = [line for line in actual.lines if step in range(*line["steps"])]
        for line in lines:
            if line["world"] != world:
                raise ValueError(f"the ledger has step {step} of {line['world']} ranks: add --world {line['world']}")
            if line_timeline(line).batch(step) != feed.timeline(world).batch(step):
                raise ValueError(
                    f"the ledger has step {step} with another batch size: pass a state of that run as --state"
                )
        return cls(step, {line["rank"]: line for line in lines})

    def made(self, rank: int) -> str:
        """Return when and where a rank made the step, in words."""
        line = self.lines.get(rank)
        if line is None:
            return f"The ledger does not have this step of rank {rank}."
        time = datetime.fromtimestamp(line["time"], UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"In the ledger: rank {rank} on {line['host']}, written {time}."

    def differences(self, rank: int, slot: int, bad: Sequence[BadSample]) -> list[str]:
        """Return how the bad samples of a slot differ from those in the ledger, in words."""
        line = self.lines.get(rank)
        if line is None:
            return []
        reported = {_key(entry): entry for entry in line["bad"] if (entry["step"], entry["slot"]) == (self.step, slot)}
        found = {(each.row, each.member): each for each in bad}
        gone = [entry for key, entry in reported.items() if key not in found]
        new = [each for key, each in found.items() if key not in reported]
        return [
            *(f"In the run, {entry['group']}:{entry['id']} was bad here: {entry['reason']}" for entry in gone),
            *(f"In the run, {each.group}:{each.id} was not bad here" for each in new),
        ]


def _key(entry: BadEntry) -> tuple[int, int | None]:
    return entry["row"], entry.get("member")
