"""Finds clips that are copies of others: fingerprints, candidates, comparison."""
