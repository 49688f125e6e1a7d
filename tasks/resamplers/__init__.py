"""Resamplers of clips."""
