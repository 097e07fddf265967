"""What was measured in one shard, as a table, and a folder that keeps such tables between runs.

Tables do not depend on rules: with other rules nothing is read again. A file is named by its shard's path and version
and appears by rename, so that a killed run leaves only complete files. A file that cannot be read is made again.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.readers.tar.layout import MEMBER, Shard
from penstock.runtime.aside import write_aside

FORMAT = 1  # version of the files and of the measurements: with another number everything is measured again

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


class MeasuredFolder:
    """A folder of tables. Several processes may save different shards at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, shard: str, version: str) -> Measured | None:
        path = self._path(shard, version)
        try:
            with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
                clips = reader.get_batch(0)
        except (FileNotFoundError, pa.ArrowInvalid):
            return None
        facts = json.loads(clips.schema.metadata[b"shard"])
        return Measured(Shard(facts["path"], facts["size"], facts["version"]), clips)

    def save(self, measured: Measured) -> None:
        shard = measured.shard
        assert shard.version is not None
        facts = json.dumps({"path": shard.path, "size": shard.size, "version": shard.version})
        clips = measured.clips.replace_schema_metadata({"shard": facts})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, clips.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(clips)
        write_aside(self._path(shard.path, shard.version), [memoryview(sink.getvalue())], sync=True)

    def _path(self, shard: str, version: str) -> Path:
        identity = json.dumps([FORMAT, shard, version]).encode()
        return self.folder / f"{hashlib.sha256(identity).hexdigest()[:32]}.arrow"
