"""How a stage runs on a worker: it computes what is missing, item by item, and survives crashes."""
