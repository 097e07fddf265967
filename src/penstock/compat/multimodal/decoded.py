"""Images of tables as the ``datasets`` package hands them to functions: opened, and decoded when they are looked at."""

from typing import Any

from penstock.media.errors import BadMedia
from penstock.media.image.file import open_image

_STORED = {"bytes", "path"}
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*")


def with_images(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose stored images are PIL images. All other values stay as they are."""
    return {key: _opened(value) for key, value in record.items()}


def _opened(value: Any) -> Any:
    if isinstance(value, list) and value and _is_image(value[0]):
        return [_opened(each) for each in value]
    if not _is_image(value):
        return value
    try:
        return open_image(value["bytes"])
    except BadMedia:
        return value


def _is_image(value: Any) -> bool:
    if not (isinstance(value, dict) and value.keys() == _STORED and isinstance(value["bytes"], bytes)):
        return False
    data = value["bytes"]
    return data.startswith(_SIGNATURES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
