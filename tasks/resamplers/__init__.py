"""Resamplers. `tasks.plugins.contracts.resamplers` says what one has."""
