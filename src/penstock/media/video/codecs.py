"""The codecs of videos that can be decoded. Imports no decoder."""

CODECS = {
    "avc1": "h264",
    "avc3": "h264",
    "hvc1": "hevc",
    "hev1": "hevc",
    "av01": "libdav1d",
    "vp09": "vp9",
    "vp08": "vp8",
}
"""FFmpeg's decoders, by the names of codecs in MP4 files."""
