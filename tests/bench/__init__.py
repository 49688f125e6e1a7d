"""Benchmarks, run by hand; README.md reports the ratios. CI runs no timed test."""
