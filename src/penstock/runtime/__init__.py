"""Facts about this process: its rank, its forks, its torch threads, memory that is used again."""
