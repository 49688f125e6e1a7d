"""Lays the clips of a version out in output shards, and writes them."""
