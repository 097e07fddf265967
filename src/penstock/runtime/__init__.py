"""Facts about this process: its rank, its forks, its torch threads, its reused memory. Imports nothing of ours."""
