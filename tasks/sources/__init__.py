"""Sources list recordings. `tasks.plugins.contracts.sources` says what one has."""
