"""Shelf of resamplers. `tasks.plugins.contracts.resamplers` says what one has."""
