"""Data preparation, one folder per pipeline."""
