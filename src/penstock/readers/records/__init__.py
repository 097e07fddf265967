"""Sources of records: which records of their files are items, where they lie, and how they are read by random access.

A source is a list of files. The index goes through them segment by segment, asks the judge which records are items,
and cuts these into groups. A record is an item of a group; that is all there is to where it lies:

    plan       source, group, item
                 │
    reader     RecordReader (packed: PackReader)
                 │ group                                 ┌── what an index knows, in the metadata cache ────┐
    sourceindex  SourceIndex ───── makes groups of ───── │ fileindex  FileIndex ── judging  SegmentIndex    │
                 │                                       │ file by file            segment by segment       │
    record     RecordGroup ── item ── Record             └───────────────────────────────▲──────────────────┘
                                        │ load(place)                                    │ segment, records
    files/     RecordFile: JsonLines, JsonArray, CsvFile, ArrowBatchFile, ParquetFile, TarRecords
                                        │ read(start, end)
               FileBytes: as stored, or unpacked

A line of JSON passes reader, index, group, file and bytes. ``knownfiles`` is what earlier runs have learnt,
``building`` makes an index with several processes, and ``indexprogress`` shows how far it is.
"""
