"""Parquet files, read by ranges: the footer, then row groups."""
