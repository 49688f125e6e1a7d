"""The Prefect server of a run, and the run's records in it."""
