"""Which clips are chosen, and in what order. Pure, and by name alone.

Every candidate has a place: the hash of (seed, language, source, name). The lowest places are chosen. So the first 100
of 500 are those that a choice of 100 makes, and another clip in the source displaces at most one.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from penstock.curate.speech.evaluation.candidate import Candidate

FORMAT = "penstock-evaluation/1"
_NOT_IN_A_KEY = re.compile(r"[^\w-]+")


def rank(candidates: Iterable[Candidate], seed: int) -> dict[str, list[Candidate]]:
    """The candidates of every language, each in the order in which they are chosen; languages by name."""
    languages: dict[str, dict[tuple[str, str], Candidate]] = {}
    for candidate in candidates:
        if _NOT_IN_A_KEY.search(candidate.language) or not candidate.language:
            raise ValueError(
                f"{candidate.source}: {candidate.name}: the language {candidate.language!r} is to name a file; "
                "letters, digits, _ and - can"
            )
        known = languages.setdefault(candidate.language, {})
        if (candidate.source, candidate.name) in known:
            raise ValueError(f"{candidate.source}: {candidate.name} comes twice; is a source named twice?")
        known[candidate.source, candidate.name] = candidate
    return {
        language: sorted(languages[language].values(), key=lambda candidate: _place(candidate, seed))
        for language in sorted(languages)
    }


def sample_ids(candidates: Sequence[Candidate]) -> list[str]:
    """Ids for one language's candidates: their names, as a tar's keys can be; with a hash where several agree."""
    plain = [_NOT_IN_A_KEY.sub("_", candidate.name) for candidate in candidates]
    counts = Counter(plain)
    return [
        f"{name}-{_digest(candidate.source, candidate.name)[:12]}" if counts[name] > 1 else name
        for name, candidate in zip(plain, candidates, strict=True)
    ]


def request_of(candidates: Sequence[Candidate], ids: Sequence[str], count: int) -> str:
    """A fingerprint of what a language's archive is made from: an archive that is there with it need not be remade."""
    held = [(name, c.source, c.name, c.size) for name, c in zip(ids, candidates, strict=True)]
    return hashlib.sha256(json.dumps([FORMAT, count, held]).encode()).hexdigest()


def _place(candidate: Candidate, seed: int) -> str:
    return _digest(str(seed), candidate.language, candidate.source, candidate.name)


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
