"""Evaluation data: the same few hundred clips of every language, as 16 kHz WAV in one tar per language.

candidates                  clips that may be chosen, and which of them are
folders, shards, hubdata    candidates from audio files, tar shards, Hugging Face datasets
archive                     chosen clips -> one tar
documents                   manifest, index and filelist of the archives
destination                 a folder or a bucket to write to
build                       all of it, one language after another
"""
