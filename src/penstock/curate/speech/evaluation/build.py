"""Candidates -> evaluation data: one archive per language, and documents about them.

    OUT/hindi_eval.tar, …, evaluation_manifest.json, index.json, evaluation.tsv

The documents are written after every language, so an interrupted build resumes with the missing languages. Languages
of earlier builds that are not asked for now stay.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from penstock.curate.speech.evaluation.archive import write_archive
from penstock.curate.speech.evaluation.candidates import Candidate, rank, request_of, sample_ids
from penstock.curate.speech.evaluation.destination import Destination
from penstock.curate.speech.evaluation.documents import (
    FILELIST,
    INDEX,
    MANIFEST,
    Language,
    Languages,
    filelist_tsv,
    index_json,
    manifest_json,
    parse_manifest,
)

Progress = Callable[[str, int, int], None]
"""Called with a language, samples of it done, and samples of it in all."""


@dataclass(frozen=True, slots=True)
class Built:
    """All languages that exist now, and the names of those that this build made."""

    languages: Languages
    made: tuple[str, ...]


def build_evaluation(
    candidates: Iterable[Candidate],
    destination: Destination,
    *,
    count: int = 500,
    seed: int = 0,
    progress: Progress | None = None,
) -> Built:
    """Build evaluation data.

    Args:
        candidates: Clips to choose from.
        destination: Folder or prefix to write to.
        count: Samples per language; all if there are fewer.
        seed: Seed of the choice.
        progress: Function to call after each sample.

    Raises:
        ValueError: If there are no clips, or no clip of a language can be decoded.
    """
    earlier = destination.read(MANIFEST)
    languages = {} if earlier is None else parse_manifest(earlier, f"{destination.url}/{MANIFEST}")
    made = []
    for name, ranked in rank(candidates, seed).items():
        ids = sample_ids(ranked)
        request = request_of(ranked, ids, count)
        if not _is_there(languages.get(name), request, destination):
            languages[name] = _make(name, ranked, ids, destination, request, count, seed, progress)
            made.append(name)
            _describe(destination, languages)
        elif progress:
            progress(name, len(languages[name].archive.samples), len(languages[name].archive.samples))
    if not languages:
        raise ValueError("the sources contain no clips")
    return Built(languages, tuple(made))


def _is_there(earlier: Language | None, request: str, destination: Destination) -> bool:
    if earlier is None or earlier.request != request:
        return False
    return destination.holds(earlier.file, earlier.archive.bytes, earlier.archive.sha256)


def _make(
    name: str,
    ranked: Sequence[Candidate],
    ids: Sequence[str],
    destination: Destination,
    request: str,
    count: int,
    seed: int,
    progress: Progress | None,
) -> Language:
    file = f"{name}_eval.tar"
    made = (
        destination.work / f"{file}.partial"
    )  # not *.tar, so that a killed build leaves nothing that looks like a shard

    def report(done: int) -> None:
        if progress:
            progress(name, done, min(count, len(ranked)))

    archive = write_archive(made, zip(ids, ranked, strict=True), count, report)
    if not archive.samples:
        first = archive.left_out[0]
        raise ValueError(f"{name}: none of its {len(ranked):,} clips can be decoded; {first.name}: {first.reason}")
    destination.put(made, file)
    return Language(file, seed, count, len(ranked), request, archive)


def _describe(destination: Destination, languages: Languages) -> None:
    # The manifest last: a later build relies on it.
    for name, text in (
        (INDEX, index_json(languages)),
        (FILELIST, filelist_tsv(languages)),
        (MANIFEST, manifest_json(languages)),
    ):
        made = destination.work / name
        made.write_text(text, encoding="utf-8")
        destination.put(made, name)
