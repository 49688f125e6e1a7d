"""Forecasts of a run: plan, what-if, and estimates from a sample with their uncertainty."""
