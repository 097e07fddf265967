"""Candidates -> evaluation data: one archive per language, and documents about them.

    OUT/hindi_eval.tar, …, evaluation_manifest.json, index.json, evaluation.tsv

An engine reads and decodes the chosen clips of all languages; they are written in order, by this process. The documents
are written after every language, so an interrupted build resumes with the missing languages. Languages
of earlier builds that are not asked for now stay.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from penstock.curate.speech.evaluation.archive import ArchiveWriter, ConvertedClip, LeftOut, convert_clips
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
from penstock.runtime.engines.engine import Engine

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
    engine: Engine,
    *,
    count: int = 500,
    seed: int = 0,
    progress: Progress | None = None,
) -> Built:
    """Build evaluation data.

    Args:
        candidates: Clips to choose from.
        destination: Folder or prefix to write to.
        engine: Engine that reads and decodes the chosen clips.
        count: Samples per language; all if there are fewer.
        seed: Seed of the choice.
        progress: Function to call after each sample.

    Raises:
        ValueError: If there are no clips, no clip of a language can be decoded, or a clip ends the processes that
            decode it.
    """
    earlier = destination.read(MANIFEST)
    languages = {} if earlier is None else parse_manifest(earlier, f"{destination.url}/{MANIFEST}")
    made = []
    with ExitStack() as unfinished:
        making = []
        for name, ranked in rank(candidates, seed).items():
            ids = sample_ids(ranked)
            request = request_of(ranked, ids, count)
            if not _is_there(languages.get(name), request, destination):
                one = _LanguageBuild(name, ranked, ids, request, destination.work, count)
                making.append(one)
                unfinished.callback(one.writer.close)
            elif progress:
                progress(name, len(languages[name].archive.samples), len(languages[name].archive.samples))
        for one in _completed(making, engine, progress):
            languages[one.name] = one.finish(destination, seed)
            made.append(one.name)
            _describe(destination, languages)
    if not languages:
        raise ValueError("the sources contain no clips")
    return Built(languages, tuple(sorted(made)))


def _is_there(earlier: Language | None, request: str, destination: Destination) -> bool:
    if earlier is None or earlier.request != request:
        return False
    return destination.holds(earlier.file, earlier.archive.bytes, earlier.archive.sha256)


class _LanguageBuild:
    """A language in the making.

    Args:
        name: Name of the language.
        ranked: Candidates in the order of choice.
        ids: Ids of the candidates.
        request: Fingerprint of the inputs.
        folder: Folder for temporary files.
        count: Number of samples to write.
    """

    def __init__(
        self, name: str, ranked: Sequence[Candidate], ids: Sequence[str], request: str, folder: Path, count: int
    ) -> None:
        self.name = name
        self._ranked = ranked
        self._ids = ids
        self._request = request
        self._count = count
        self._added = 0
        self._file = f"{name}_eval.tar"
        # Not *.tar, so that a killed build leaves nothing that looks like a shard.
        self._made = folder / f"{self._file}.partial"
        self.writer = ArchiveWriter(self._made)

    def missing(self) -> Sequence[Candidate]:
        """Return the next candidates, as many as samples are missing."""
        return self._ranked[self._added : self._added + self._count - len(self.writer.samples)]

    def add(self, clip: ConvertedClip | LeftOut, progress: Progress | None) -> None:
        """Add what was made of the next candidate."""
        self.writer.add(self._ids[self._added], self._ranked[self._added], clip)
        self._added += 1
        if progress and isinstance(clip, ConvertedClip):
            progress(self.name, len(self.writer.samples), min(self._count, len(self._ranked)))

    def finish(self, destination: Destination, seed: int) -> Language:
        """Move the archive to its place.

        Raises:
            ValueError: If no clip could be decoded.
        """
        archive = self.writer.finish()
        if not archive.samples:
            first = archive.left_out[0]
            raise ValueError(
                f"{self.name}: none of its {len(self._ranked):,} clips can be decoded; {first.name}: {first.reason}"
            )
        destination.put(self._made, self._file)
        return Language(self._file, seed, self._count, len(self._ranked), self._request, archive)


def _completed(
    making: Sequence[_LanguageBuild], engine: Engine, progress: Progress | None
) -> Generator[_LanguageBuild, None, None]:
    """Yield each language when it is complete. Clips that cannot be decoded are replaced in a further round."""
    while making:
        rounds = [(one, one.missing()) for one in making]
        clips = convert_clips([candidate for _, chosen in rounds for candidate in chosen], engine)
        with closing(clips):
            for one, chosen in rounds:
                for _ in chosen:
                    one.add(next(clips), progress)
                if not one.missing():
                    yield one
        making = [one for one in making if one.missing()]


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
