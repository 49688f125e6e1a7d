"""The header by which Hugging Face's `datasets` finds the splits of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tasks.formats import OutputShard
from tasks.storage import write_atomic


def write_splits(shards: Sequence[OutputShard], folder: Path, pattern: str) -> None:
    """`folder/README.md`; `pattern`: the files of a `{split}`."""
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for split in dict.fromkeys(shard.split for shard in shards):
        lines += [f'  - split: "{split}"', f'    path: "{pattern.format(split=split)}"']
    write_atomic(folder / "README.md", "\n".join([*lines, "---", ""]).encode())
