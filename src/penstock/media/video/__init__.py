"""Videos -> frames. Modules in the order in which data passes:

file, frames                evenly spaced frames of a video of a chat record
batch                       robot: the frames of a batch, each decoded once
decoders, decoder, idle     decoders of PyAV, kept for the next batch
torchcodec                  the same with torchcodec
sinks, depth                decoded frame -> row of the batch: RGB, or distances
encoding                    frames -> an MP4 file, for tests and demos
"""
