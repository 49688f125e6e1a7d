"""Runs a stage on a worker: computes what is missing, item by item, and survives crashes."""
