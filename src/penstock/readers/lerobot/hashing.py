"""SHA-256 of the bytes of episodes, made by ``penstock index --sha256``, and what else identifies their content.

Of rows, those of the row groups that hold an episode are hashed; of a video, the frames of the episode. Hashes are kept
per file and version. Decodes nothing.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from penstock.manifest.errors import ManifestError
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.lerobot.videos import Videos
from penstock.readers.metadatacache import MetadataCache
from penstock.readers.ranges import Ranges
from penstock.readers.reader import Evidence
from penstock.runtime.daemons import DaemonPool
from penstock.store.cache.store import CacheBackedStore

_KIND = "sha256 of episodes 1"
_FILES_AT_ONCE = 16
_ROW = np.dtype([("episode", "<i8"), ("digest", "V32")])
_ROWS = "rows"  # name of the rows beside cameras, whose names have a dot


class EpisodeHashes:
    """What identifies the content of episodes. Episodes are named by their place in the dataset.

    Args:
        dataset: Dataset.
        rows: Files of rows.
        videos: Videos.
        ranges: Bytes of the files.
        metadata: Folder of the metadata cache.
        cameras: Cameras with videos that are read.
    """

    def __init__(
        self, dataset: Dataset, rows: RowFiles, videos: Videos, ranges: Ranges, metadata: Path, cameras: Sequence[str]
    ) -> None:
        self._dataset = dataset
        self._rows = rows
        self._videos = videos
        self._ranges = ranges
        self._metadata = MetadataCache(metadata, _KIND)
        self._cameras = cameras
        self._known: dict[str, dict[int, bytes]] = {}

    def make(self, episodes: Iterable[int], progress: Callable[[int, int], None]) -> None:
        """Hash all episodes that were not hashed yet.

        Args:
            episodes: Places of the episodes.
            progress: Called with the number of files that are done, and of all.
        """
        files: dict[tuple[str, str], list[int]] = {}
        for at in episodes:
            for name, path in self._paths(at).items():
                files.setdefault((name, path), []).append(at)
        with DaemonPool(_FILES_AT_ONCE, "penstock-index") as pool:
            jobs = [pool.submit(self._hash_file, name, path, own) for (name, path), own in files.items()]
            for done, job in enumerate(jobs, 1):
                job.result()
                progress(done, len(jobs))

    def evidence(self, at: int) -> tuple[Evidence, ...]:
        """Return what is known of an episode, strongest first."""
        hashed: tuple[Evidence, ...] = ()
        if all(self._number(at) in self._digests(path) for path in self._paths(at).values()):
            hashed = ("sha256",)
        return (*hashed, "version") if isinstance(self._ranges.open_store(), CacheBackedStore) else hashed

    def content(self, at: int, evidence: Evidence) -> str:
        """Return what identifies the content of an episode, such as ``rows:…,observation.image:…``.

        Raises:
            ManifestError: If it was not hashed.
        """
        read = self._version if evidence == "version" else self._digest
        return ",".join(f"{name}:{read(at, path)}" for name, path in self._paths(at).items())

    def _version(self, at: int, path: str) -> str:  # noqa: ARG002  # of the whole file
        return self._ranges.object_version(path).version

    def _digest(self, at: int, path: str) -> str:
        found = self._digests(path).get(self._number(at))
        if found is None:
            name = self._dataset.episode_name(at)
            raise ManifestError(
                f"{self._dataset.name}/{path}: {name} has no SHA-256; run penstock index CONFIG --sha256 again"
            )
        return found.hex()

    def _paths(self, at: int) -> Mapping[str, str]:
        """Return the path of the file of rows and of each camera."""
        videos = {camera: self._dataset.video_path(camera, at) for camera in self._cameras}
        return {_ROWS: self._dataset.data_path(at), **videos}

    def _number(self, at: int) -> int:
        return int(self._dataset.episodes.index[at])

    def _digests(self, path: str) -> dict[int, bytes]:
        """Return the digests of the episodes of a file by number, as far as they are known."""
        found = self._known.get(path)
        if found is None:
            data = self._metadata.get(self._ranges.object_version(path))
            table = np.frombuffer(b"" if data is None else data, _ROW)
            found = dict(zip(table["episode"].tolist(), map(bytes, table["digest"]), strict=True))
            self._known[path] = found
        return found

    def _hash_file(self, name: str, path: str, episodes: Sequence[int]) -> None:
        digests = self._digests(path)
        missing = [at for at in episodes if self._number(at) not in digests]
        if not missing:
            return
        groups: dict[int, bytes] = {}
        for at in missing:
            digest = self._hash_rows(path, at, groups) if name == _ROWS else self._hash_frames(name, at)
            digests[self._number(at)] = digest
        table = np.array(sorted(digests.items()), _ROW)
        self._metadata.put(self._ranges.object_version(path), table.tobytes())

    def _hash_rows(self, path: str, at: int, groups: dict[int, bytes]) -> bytes:
        """Hash the row groups with an episode.

        Args:
            path: File of rows.
            at: Place of the episode.
            groups: Digests of row groups that are known: one may hold many episodes.
        """
        footer = self._rows.footer(at)
        found = hashlib.sha256()
        for group in footer.groups_of(*self._rows.span(at, footer)):
            if group not in groups:
                start, end = footer.byte_ranges[group]
                digest = hashlib.sha256()
                for unit in footer.units_of(group):
                    own = max(start, unit[0]), min(end, unit[1])
                    digest.update(self._ranges.read(path, unit, footer.file_size, *own))
                groups[group] = digest.digest()
            found.update(groups[group])
        return found.digest()

    def _hash_frames(self, camera: str, at: int) -> bytes:
        clip = self._videos.clip(camera, at)
        self._ranges.fetch(clip.path, clip.units, clip.file_size)
        digest = hashlib.sha256()
        for piece in clip.blocks():
            for data in clip.read(self._ranges, piece):
                digest.update(data)
        return digest.digest()
