"""The Prefect server of a run, and what it is told."""
