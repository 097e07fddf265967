"""Which clips of the shards are worth training on: measured once, judged by rules, written as filelist and manifest."""
