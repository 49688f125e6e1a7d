"""Run by mlcroissant's environment: the description is valid, and gives every row of train."""

import json
import logging
import sys

import mlcroissant


class Warnings(logging.Filter):
    """Of properties that are recommended, which only a person knows: how to cite it, and since
    when. A context that is not the standard one is a fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        assert "@context" not in record.getMessage(), record.getMessage()
        return False


logging.getLogger("absl").addFilter(Warnings())
dataset = mlcroissant.Dataset(f"{sys.argv[1]}/croissant.json")
for record in dataset.records("utterances"):
    row = {name.rpartition("/")[2]: value for name, value in record.items()}
    text, split = (
        row[n].decode() if isinstance(row[n], bytes) else row[n] for n in ("text", "split")
    )
    if split == "train":
        print(json.dumps({"text": text, "sha256": None}))
