"""Checking and cleaning an OUT: `verify` and `prune`."""
