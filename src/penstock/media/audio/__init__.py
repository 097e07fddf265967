"""Sound files -> samples and features. Modules in the order in which data passes:

waveform            the interface of every decoder
wav                 a decoder: PCM WAV, which it also writes
flac, flac_blocks   a decoder: FLAC, and where its blocks lie
sndfile, quiet      a decoder: MP3, Ogg, Opus, rare WAVs
mp3, ogg            checks and lengths of these files, without decoding
ffmpeg              a decoder: M4A, AAC, WebM, the sound of videos
miniaudio           C functions for FLAC and for 16-bit samples
resample            any part of a waveform at 16 kHz; its fast filter is in block_filter
clip                speech: a file -> a crop, or the whole clip, at 16 kHz
crops               the crops of a batch
sound               chat: the sound of a record -> samples at any rate
features, logmel    samples -> W2V-BERT's features, log-mel spectrograms
quality, snr        how good a clip is, for filelists
"""
