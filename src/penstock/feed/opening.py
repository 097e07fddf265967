"""From a checked configuration to what it names: manifest, store, recipe, and whether the cache is large enough."""

import os
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.config import Config, ConfigError, SpeechConfig
from penstock.feed.planning import Changes
from penstock.readers.tar.filelist import open_filelist
from penstock.readers.tar.manifest import Manifest
from penstock.readers.tar.reader import TarSource
from penstock.recipes.raw import Raw
from penstock.recipes.sample import Recipe
from penstock.store.blob import Store
from penstock.store.cache.admission import CacheTooSmall
from penstock.store.cache.cache import NodeCache
from penstock.store.local import LocalStore
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo
from penstock.store.remote.urls import local_path, open_remote

if TYPE_CHECKING:
    from penstock.store.cache.cached import CachedStore

_CACHE_BYTES = 20 * 10**9  # of a remote store's data, where the config says nothing


def cache_dir(config: Config) -> Path:
    if config.cache is not None:
        return config.cache.dir
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def scratch_dir(config: Config) -> Path:
    """Where compiled filelists and learnt indexes are kept between runs: in the cache, beside the objects."""
    return cache_dir(config) / ".penstock"


def open_manifest(config: Config) -> Manifest:
    if config.recipe not in ("raw", "speech"):
        raise ConfigError(f"recipe: {config.recipe} is not there yet; raw and speech are")
    if config.manifest is not None:
        return Manifest.open(config.manifest)
    assert config.filelist is not None
    filelist, folder = config.filelist, local_path(config.store)
    return open_filelist(filelist, scratch_dir(config) / "manifests", known_shards=lambda: _files(filelist, folder))


def _files(filelist: Path, folder: Path | None) -> list[str] | None:
    """The files of a local store; None where nothing that is listed is here: a run can be planned without its data."""
    if folder is None or not folder.is_dir():
        return None
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    known = {name.encode() for name in files}
    with open(filelist, "rb") as lines:
        return files if any(line.split(b"\t", 1)[0] in known for line in lines) else None


def open_store(config: Config, manifest: Manifest) -> Store:
    """What shard paths are relative to. A folder is read in place; what is remote comes through the node cache."""
    folder = local_path(config.store)
    if folder is not None:
        return LocalStore(folder)
    from penstock.store.cache.cached import CachedStore  # brings the client of remote stores

    cache = NodeCache(cache_dir(config), config.cache.size if config.cache else _CACHE_BYTES)
    remote = open_remote(config.store, StoreOptions(**config.remote.model_dump()))
    return CachedStore(remote, cache, _versions(manifest) if manifest.store == remote.url else None)


def _versions(manifest: Manifest) -> dict[str, ObjectInfo]:
    """What an index knows of its shards, so that the store need not be asked again."""
    shards = (manifest.shard(number) for number in range(manifest.shard_count))
    return {shard.path: ObjectInfo(shard.size, shard.version) for shard in shards if shard.size and shard.version}


def require_room(store: "CachedStore", manifest: Manifest, changes: Changes, residents: int) -> None:
    """Fail now, not in the middle of a run, if the cache can't hold what is resident at once and what enters next.

    Exact where an index knows the shards' sizes; otherwise the first shard of a source stands for its others.
    """
    drawn = [i for i in range(len(manifest.sources)) if not changes or any(counts[i] for _, counts in changes)]
    with ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(lambda source: _shard_sizes(store, manifest, source), drawn))
    if not changes:  # a finite run: one pool over all sources
        sizes = [[size for each in sizes for size in each]]
    resident = sum(sum(sorted(each, reverse=True)[:residents]) for each in sizes)
    entering = max(size for each in sizes for size in each)
    try:
        store.cache.require(resident + entering)
    except CacheTooSmall as error:
        raise ConfigError(f"cache.size: {error}, or the run a smaller pool than {residents}") from None


def _shard_sizes(store: "CachedStore", manifest: Manifest, source: int) -> list[int]:
    groups = np.arange(len(manifest.group_sizes(source)))
    shards = np.unique(manifest.shard_of(manifest.rows(source, groups, 0))).tolist()
    if manifest.store != store.url:
        return [store.info(manifest.shard(shards[0]).path).size] * len(shards)
    return [store.info(manifest.shard(shard).path).size for shard in shards]


def make_recipe(config: Config, source: TarSource) -> Recipe:
    if config.recipe == "raw":
        return Raw(source)
    if config.recipe == "speech":
        try:
            return _make_speech(config.speech, source)
        except ModuleNotFoundError as missing:
            raise ConfigError(f"recipe: speech needs {missing.name}: pip install 'penstock[speech]'") from None
    raise AssertionError(config.recipe)


def _make_speech(speech: SpeechConfig, source: TarSource) -> Recipe:
    if find_spec("torch") is None:
        raise ModuleNotFoundError(name="torch")  # what is handed out are its tensors
    if speech.crop == "full":
        from penstock.recipes.whole_speech import WholeSpeech  # brings torch

        return WholeSpeech(source, mix=speech.channel, features=speech.features)
    from penstock.recipes.speech import Speech

    return Speech(source, crop=speech.crop, mix=speech.channel, features=speech.features)
