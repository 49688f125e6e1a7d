"""The Prefect server of a run, and what is recorded in it."""
