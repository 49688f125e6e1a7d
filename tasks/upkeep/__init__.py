"""Checking and cleaning what lies in an OUT: `verify`, `prune`."""
