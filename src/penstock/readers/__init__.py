"""Item -> record: how the bytes of an item are found and read. The only room that knows file layouts."""

from penstock.readers.blobs import OpenBlobs
from penstock.readers.errors import ContentError
from penstock.readers.reader import BaseReader, Reader, Uses

__all__ = ["BaseReader", "ContentError", "OpenBlobs", "Reader", "Uses"]
