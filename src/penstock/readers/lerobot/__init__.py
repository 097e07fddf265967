"""LeRobotDataset v3.0: robot episodes as Parquet rows and MP4 videos."""
