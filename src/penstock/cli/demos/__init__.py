"""What ``penstock demo`` can show: one file per kind."""
