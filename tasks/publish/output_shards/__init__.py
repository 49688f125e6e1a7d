"""Writes a version: its tables, and the output shards that its clips are assigned to."""
