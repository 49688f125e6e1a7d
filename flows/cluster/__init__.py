"""The Dask cluster of a run: its settings, its workers, and the guard of every call to them."""
