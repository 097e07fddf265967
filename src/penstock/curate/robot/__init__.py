"""Robot data: writing small datasets, checking large ones."""
