"""uttermill's library: the five stages, without Prefect and without a cluster."""
