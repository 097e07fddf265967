"""What exists, known before any data is read: sources, groups, sizes, amounts, fingerprints."""
