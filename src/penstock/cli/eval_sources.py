"""Sources of evaluation data as they are named on the command line.

data/clips                        a folder of language folders of audio files
telugu=data/te                    a folder of one language
data/shards, s3://bucket/shards   tar shards
fleurs, fleurs:te_in              the test split of Indic FLEURS, or of one of its configs
librispeech:other:validation      LibriSpeech
fleurs:te_in:test@data/fleurs     a local copy
tamil=datasets::test@org/name     any other dataset with an audio column
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from penstock.cli.shards import Shards, named_shards
from penstock.curate.speech.evaluation.candidates import Candidate
from penstock.curate.speech.evaluation.folders import folder_candidates
from penstock.curate.speech.evaluation.hubdata import INDIC, HubData, fleurs, hub_candidates, librispeech
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import local_path

_LANGUAGE = re.compile(r"([\w-]+)=(.+)")
_DATASET = re.compile(r"(fleurs|librispeech|datasets)(?::([^:@]*))?(?::([^:@]+))?(?:@(.+))?")


ShardLister = Callable[[Shards, str | None], Iterable[Candidate]]
"""Called with tar shards, and the language of all of their clips or None."""


def shards_of(text: str, options: StoreOptions) -> Shards | None:
    """Return the tar shards of one ``--source``; None if it has none.

    Args:
        text: Source as typed by the user.
        options: Options of remote stores.
    """
    _, place = _parse(text)
    if _DATASET.fullmatch(place):
        return None
    folder = local_path(place)
    if folder is None or folder.suffix == ".tar" or next(folder.rglob("*.tar"), None):
        return named_shards([place], options=options)
    return None


def candidates_of(text: str, options: StoreOptions, list_shards: ShardLister) -> Iterator[Candidate]:
    """List the clips of one ``--source``.

    Args:
        text: Source as typed by the user.
        options: Options of remote stores.
        list_shards: Function that lists the clips of tar shards.

    Raises:
        FileNotFoundError: If there is no such folder, tar or dataset.
        ValueError: If ``datasets`` has no name of a dataset.
    """
    language, place = _parse(text)
    if known := _DATASET.fullmatch(place):
        for data in _datasets(known[1], known[2], known[3], known[4], language):
            yield from hub_candidates(data)
        return
    if (shards := shards_of(text, options)) is not None:
        yield from list_shards(shards, language)
    elif (folder := local_path(place)) is not None and folder.is_dir():
        yield from folder_candidates(folder, language)
    else:
        raise FileNotFoundError(f"--source {text}: no such folder, tar or dataset (fleurs, librispeech, datasets@…)")


def _parse(text: str) -> tuple[str | None, str]:
    """Return the language, or None, and the rest of a source."""
    named = _LANGUAGE.fullmatch(text)
    return (named[1], named[2]) if named else (None, text)


def _datasets(
    kind: str, config: str | None, split: str | None, where: str | None, language: str | None
) -> Iterator[HubData]:
    split = split or "test"
    if kind == "fleurs":
        for code in [config] if config else INDIC:
            yield fleurs(code, split, where or "google/fleurs", language)
    elif kind == "librispeech":
        yield librispeech(config or "clean", split, where or "openslr/librispeech_asr", language or "english")
    elif where:
        yield HubData(Path(where).name, where, config, split, language)
    else:
        raise ValueError("--source datasets: name the dataset, as datasets@ORG/NAME or datasets:CONFIG:SPLIT@FOLDER")
