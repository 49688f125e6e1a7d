"""Filters measure one utterance and set limits on what they measure."""
