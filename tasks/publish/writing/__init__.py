"""Writes the parts and output shards of a version on the workers."""
