"""Shelf of filters: they measure one utterance and set limits on what they measure.

`tasks.plugins.contracts.filters` says what one has.
"""
