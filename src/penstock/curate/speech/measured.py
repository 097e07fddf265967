"""The table of one shard's measurements, and a folder that keeps such tables between runs.

Tables do not depend on rules: with other rules nothing is read again. They are kept by store, path and version of the
shard (see ``readers.metadatacache``). A table that is damaged is made again. The table of a local file also has a
digest of it, which decides where only the file's ctime is another one, as after ``chmod``.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.readers.tar.layout import MEMBER, Shard
from penstock.store.blob import Blob
from penstock.store.local import LocalBlob, stamp

FORMAT = 2  # version of the files and of the measurements: with another number everything is measured again

_NAMED_MEMBER = pa.struct([("ext", pa.large_string()), *[field for field in MEMBER if field.name != "ext"]])
CLIPS = pa.schema(
    [
        ("id", pa.large_string()),
        ("language", pa.large_string()),
        ("seconds", pa.float64()),
        ("clipping", pa.float32()),
        ("silence", pa.float32()),
        ("snr", pa.float32()),
        ("json", pa.large_binary()),  # null if there is none
        ("problem", pa.large_string()),  # kind of problem that makes the clip unusable under any rules, or null
        ("why", pa.large_string()),
        ("members", pa.large_list(_NAMED_MEMBER)),
    ]
)


@dataclass(frozen=True)
class Measured:
    """One row of ``CLIPS`` per sample, in the order of the shard."""

    shard: Shard
    clips: pa.RecordBatch


def table_bytes(measured: Measured, digest: str | None) -> bytes:
    """Return a table as it is kept.

    Args:
        measured: Table.
        digest: Digest of the shard, if it is a local file.
    """
    shard = measured.shard
    assert shard.version is not None
    about = {"size": str(shard.size), "stamp": shard.version, "digest": digest or ""}
    clips = measured.clips.replace_schema_metadata(about)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, clips.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(clips)
    return bytes(sink.getvalue())


class MeasuredFolder:
    """A folder of tables, into which several processes and machines may write at once.

    Args:
        folder: Folder of the tables; created when the first one is saved.
        store: ``identity`` of the shards' store.
    """

    def __init__(self, folder: Path, store: str) -> None:
        self._metadata = MetadataCache(folder, f"speech measurements {FORMAT}")
        self._store = store

    @property
    def is_empty(self) -> bool:
        return self._metadata.is_empty

    def load(self, shard: str, version: str) -> Measured | None:
        """Return what was measured in a version of a shard, or None if that is not known."""
        kept = self._metadata.get(ObjectVersion(self._store, shard, version))
        if kept is None:
            return None
        with pa.ipc.open_file(pa.py_buffer(kept)) as reader:
            clips = reader.get_batch(0)
        about = clips.schema.metadata
        return Measured(Shard(shard, int(about[b"size"]), about.get(b"stamp", version.encode()).decode()), clips)

    def load_of(self, shard: str, blob: Blob) -> Measured | None:
        """Return what was measured in an open shard, or None if that is not known. May read all of it."""
        found = self.load(shard, blob.version)
        if found is None or found.shard.version == stamp(blob):
            return found
        assert isinstance(blob, LocalBlob)
        digest = blob.digest()
        if digest is None or found.clips.schema.metadata.get(b"digest") != digest.encode():
            return None
        found = replace(found, shard=found.shard._replace(version=blob.stamp))
        self.keep(shard, blob.version, table_bytes(found, digest))
        return found

    def find(self, shard: str, blob: Blob) -> str | None:
        """Return the version of an open shard; None if its table is not in the folder, or damaged."""
        return None if self.load_of(shard, blob) is None else blob.version

    def keep(self, shard: str, version: str, content: bytes) -> None:
        """Keep the table of a version of a shard; see ``table_bytes``."""
        self._metadata.put_unlocked(ObjectVersion(self._store, shard, version), content)
