"""Benchmarks: run by hand, ratios reported in the README; no timed test runs in CI."""
