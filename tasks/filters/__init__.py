"""Filters measure one utterance and set limits on what they measure.

Their contract is `tasks.plugins.contracts.filters`.
"""
