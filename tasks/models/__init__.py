"""Weights of known models: sources, hashes, licences, and how they are fetched.

Only `uttermill models fetch` downloads anything.
"""
