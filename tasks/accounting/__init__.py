"""Where every second went: ledger, totals, and the cost of the work."""
