"""Forecasts what a run downloads, keeps and evicts, from its plan alone."""
