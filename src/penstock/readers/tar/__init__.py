"""Tar shards in WebDataset's naming: filelists, indexes and random access into them.

filelist ──► filelist.py ──┐ (explain.py: its errors, line by line)
                           ├─► writer.py ─► a compiled manifest on disk (layout.py: its files)
shards ────► index.py ─────┘                │
             └ shardreader.py, facts.py     └─► manifest.py ─► reader.py ─► records (member.py: one file each)
                                                └ columns.py   └ shardindex.py: the index of a shard that is not
                                                                 in the manifest
archive.py: the files of a tar archive          samples.py: the samples of a shard, by the names of its files
"""
