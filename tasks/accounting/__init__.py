"""Where every second went: ledger, totals, and what the work cost."""
