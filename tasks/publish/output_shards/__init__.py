"""Assigns clips to output shards, and plans what the workers write."""
