"""Records of datasets: lines, arrays, tables and tar shards, whole or compressed; each is read by its place."""
