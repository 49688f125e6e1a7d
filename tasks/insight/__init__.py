"""Forecasts and reports of runs: plan, estimate, what-if, report."""
