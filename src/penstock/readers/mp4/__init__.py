"""MP4 files: where each frame lies, without a decoder.

bytes ─► header.py ─► track.py ─► video.py ─► clip.py ─► bytes of frames, for a decoder
         the moov     frames of   a file cut  the frames of one
         box          the file    into clips  episode
boxes.py: the boxes of a file          checksums.py: checksums of frames, from ``penstock index``
"""
