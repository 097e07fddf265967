"""Collects all problems of an input in one error. Knows how to count and list problems; knows no input."""

from collections import Counter
from dataclasses import dataclass, field

MAX_SHOWN = 20  # problems in a message


@dataclass(frozen=True)
class Problem:
    """A problem of an input.

    Attributes:
        kind: Kind by which problems are counted, such as ``duplicate``.
        where: File and line, or item.
        reason: Description of the problem.
    """

    kind: str
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class ManifestError(ValueError):
    """A manifest or its input cannot be used.

    Attributes:
        problems: First problems.
        counts: Number of all problems, by kind.
    """

    def __init__(self, message: str, problems: tuple[Problem, ...] = (), counts: dict[str, int] | None = None):
        super().__init__(message)
        self.problems = problems
        self.counts = counts or {}


@dataclass
class Problems:
    """Collects the problems of one input: keeps the first ones, and counts all.

    Attributes:
        name: Name of the input.
        shown: Number of problems to keep.
        first: First problems.
        counts: Number of all problems, by kind.
    """

    name: str
    shown: int = MAX_SHOWN
    first: list[Problem] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, where: str, reason: str) -> None:
        """Add a problem.

        Args:
            kind: Kind by which problems are counted, such as ``duplicate``.
            where: File and line, or item.
            reason: Description of the problem.
        """
        self.counts[kind] += 1
        if len(self.first) < self.shown:
            self.first.append(Problem(kind, where, reason))

    def __bool__(self) -> bool:
        return bool(self.counts)

    def error(self, advice: str = "") -> ManifestError:
        """Return an error that lists the first problems and counts all of them.

        Args:
            advice: Next step for the user, at the end of the first line.
        """
        total = self.counts.total()
        by_kind = ", ".join(f"{count:,} × {kind}" for kind, count in self.counts.most_common())
        lines = [f"{self.name}: {total:,} problem{'s' if total > 1 else ''} ({by_kind}){advice}"]
        lines += [f"  {problem}" for problem in self.first]
        if total > len(self.first):
            lines.append(f"  … and {total - len(self.first):,} more")
        return ManifestError("\n".join(lines), tuple(self.first), dict(self.counts))
