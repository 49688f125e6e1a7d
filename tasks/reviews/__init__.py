"""Decisions by people: keep, drop or another text, stored in OUT and applied by the next run."""
