"""`.nv-meta`: what Megatron-Energon reads of a folder of WebDataset tars.

.nv-meta/.info.json     how many samples each tar has, by its path in the folder
.nv-meta/split.yaml     the tars of each split, under the split's own name
.nv-meta/dataset.yaml   samples as dictionaries: a `Cooker` of the task turns them into its own
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tasks.formats import OutputShard
from tasks.storage import write_atomic

FOLDER = ".nv-meta"
KIND = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


def write(shards: Sequence[OutputShard], folder: Path) -> None:
    """`folder` holds the tars; paths in the metadata start from it."""
    counts: dict[str, int] = {}
    splits: dict[str, list[str]] = {}
    for shard in shards:
        name = shard.path.partition("/")[2]
        counts[name] = shard.clips
        splits.setdefault(shard.split, []).append(name)
    home = folder / FOLDER
    home.mkdir(exist_ok=True)
    write_atomic(home / ".info.json", _json({"shard_counts": counts}))
    write_atomic(home / "split.yaml", _json({"exclude": [], "split_parts": splits}))  # JSON is YAML
    write_atomic(home / "dataset.yaml", KIND.encode())


def _json(value: object) -> bytes:
    return json.dumps(value, indent=0).encode() + b"\n"
