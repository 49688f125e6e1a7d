"""Chooses the clips of a version, and their splits."""
