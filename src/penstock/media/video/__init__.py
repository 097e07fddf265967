"""Frames of videos, decoded by packets: only those that are wanted, each once."""
