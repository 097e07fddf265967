"""What exists, known before any data is read: filelists and indexes, compiled to memory-mapped Arrow."""
