"""The Dask cluster of a run: its settings, its workers, and the dispatcher of calls to them."""
