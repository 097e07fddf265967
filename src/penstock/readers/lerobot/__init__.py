"""LeRobotDataset v3.0: robot episodes as Parquet rows and MP4 videos.

meta/ ─► info.py, episodes.py ─► dataset.py ─► reader.py ─► moment.py: the record of a frame
         features  episodes      groups        │ windows.py: the frames around it
         and paths and tasks                   ├ tables.py (rowfiles.py, columns.py): rows of an episode
                                               ├ images.py: images embedded in the rows
                                               └ videos.py: frames of videos
contradictions.py: what cannot be true in ``meta/``
checking.py, framechecks.py: every file of a dataset checked beforehand, for ``penstock index``
"""
