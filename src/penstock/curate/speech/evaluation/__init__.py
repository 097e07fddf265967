"""Evaluation data: the same few hundred clips of every language, as 16 kHz WAV in one tar per language."""
