"""Choosing the clips that are worth training on. Modules in the order in which data passes:

measure         shards -> tables of measured clips, in parallel
measured        a folder that keeps these tables between runs
rules, where    the rules that a clip must pass; one comparison on a field of its .json
holdout         which speakers or clips are held out of training
judge           tables -> kept and held-out clips, and a report
rows            chosen clips -> columns of a filelist and of a manifest
build           all of it: shards -> filelist, manifest, report
evaluation/     the same few hundred clips of every language, to evaluate with
"""
