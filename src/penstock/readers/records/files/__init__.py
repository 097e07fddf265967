"""Files of records: how records lie in each kind of file. Knows nothing of items, indexes and groups.

kinds          ending of a name -> how the file is opened; the table to add a kind to
recordfile     what every file offers: segments, places, records
  textfile       records that are runs of bytes      jsonfile, csvfile
  arrowfile      record batches, mapped into memory
  parquetfile    row groups, unpacked into pieces
  tarrecords     samples of a shard
filebytes      the bytes of a file, stored or unpacked
"""
