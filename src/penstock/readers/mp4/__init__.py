"""MP4 files: where each frame lies, without a decoder."""
