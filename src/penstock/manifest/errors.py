"""All problems of an input, reported at once. Knows how to count and word problems; knows nothing of finding them."""

from collections import Counter
from dataclasses import dataclass, field

SHOWN = 20


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: its kind (what is counted), where it is, and why."""

    kind: str
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class ManifestError(ValueError):
    """A manifest or its input cannot be used.

    Attributes:
        problems: the first problems.
        counts: the number of all problems, by kind.
    """

    def __init__(self, message: str, problems: tuple[Problem, ...] = (), counts: dict[str, int] | None = None):
        super().__init__(message)
        self.problems = problems
        self.counts = counts or {}


@dataclass
class Problems:
    """Collects every problem of one input: keeps the first ``shown``, counts the rest."""

    name: str
    shown: int = SHOWN
    first: list[Problem] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, where: str, reason: str) -> None:
        """Add a problem.

        Args:
            kind: what is counted, such as ``duplicate``.
            where: the file and line, or the item.
            reason: what is wrong.
        """
        self.counts[kind] += 1
        if len(self.first) < self.shown:
            self.first.append(Problem(kind, where, reason))

    def __bool__(self) -> bool:
        return bool(self.counts)

    def error(self, advice: str = "") -> ManifestError:
        """Return an error that lists the first problems and counts all of them.

        Args:
            advice: what to do, for the end of the first line.
        """
        total = self.counts.total()
        by_kind = ", ".join(f"{count:,} × {kind}" for kind, count in self.counts.most_common())
        lines = [f"{self.name}: {total:,} problem{'s' if total > 1 else ''} ({by_kind}){advice}"]
        lines += [f"  {problem}" for problem in self.first]
        if total > len(self.first):
            lines.append(f"  … and {total - len(self.first):,} more")
        return ManifestError("\n".join(lines), tuple(self.first), dict(self.counts))
