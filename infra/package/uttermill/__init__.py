"""Raw recordings in, training-ready speech shards out, every second of audio accounted for.

The folders `flows/` and `tasks/` of the source tree are packages of this one, so that only the name
`uttermill` is installed.
"""
