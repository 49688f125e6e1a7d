"""Weights of known models: sources, hashes, licences, and downloads.

Only `uttermill models fetch` downloads anything.
"""
