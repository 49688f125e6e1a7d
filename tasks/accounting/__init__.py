"""Accounts for every second of audio and for the cost of the work: ledger, totals, metrics."""
