"""Tar shards in WebDataset's naming: filelists, indexes and random access into them."""
