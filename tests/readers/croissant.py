"""Run by mlcroissant's environment: the description is valid, and gives every row of train."""

import json
import logging
import sys

import mlcroissant

logging.disable(logging.WARNING)  # of properties that are recommended: who made it, and when
dataset = mlcroissant.Dataset(f"{sys.argv[1]}/croissant.json")
for record in dataset.records("utterances"):
    row = {name.rpartition("/")[2]: value for name, value in record.items()}
    text, split = (
        row[n].decode() if isinstance(row[n], bytes) else row[n] for n in ("text", "split")
    )
    if split == "train":
        print(json.dumps({"text": text, "sha256": None}))
