"""Estimates a run from a sample of its recordings: the draw, the costs, their uncertainty."""
