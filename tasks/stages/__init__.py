"""How a stage runs on a worker: what is missing, one item at a time, survived whatever happens."""
