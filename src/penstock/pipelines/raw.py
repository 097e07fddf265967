"""The raw pipeline: the files of tar shards as they are stored."""

from collections.abc import Collection

from penstock.config import Strict
from penstock.pipelines.pipeline import Context
from penstock.pipelines.tar import TarSource, open_tar
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.reader import TarReader
from penstock.recipes.raw import Raw


class RawOptions(Strict):
    """``raw:`` has no keys."""


class RawPipeline:
    options = RawOptions
    source = TarSource

    def recipe(self, options: RawOptions) -> Raw:  # noqa: ARG002
        return Raw()

    def open(self, source: TarSource, needs: Collection[str] | None, context: Context) -> tuple[TarManifest, TarReader]:
        return open_tar(source, needs, context)
