"""What `channels: auto` found, in words, for plans and runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.compute as pc

from tasks.base.counting import counted
from tasks.plugins import Dataset
from tasks.shard_store import manifest


def sentences(out: Path, datasets: Sequence[Dataset]) -> Iterator[str]:
    """How many files each source has whose channels are apart, and how many whose channels are
    mixed, with the first of each, as the last listing left them."""
    asked = [dataset.name for dataset in datasets if dataset.settings.channels == "auto"]
    by_verdict: dict[tuple[str, bool], list[str]] = {}
    for table in manifest.listings(out) if asked else ():
        if "division" not in table.column_names:
            continue
        rows = table.filter(pc.and_(table["present"], pc.is_valid(table["division"])))
        for row in rows.select(["dataset", "path", "parts", "division"]).to_pylist():
            apart = row["parts"] is not None
            name = row["path"].removesuffix("#0") if apart else row["path"]
            line = f"{name}: {row['division']}"
            by_verdict.setdefault((row["dataset"], apart), []).append(line)
    for name in asked:
        for apart, verb in ((True, "read apart"), (False, "mixed")):
            if lines := by_verdict.get((name, apart)):
                files = counted(len(lines), "file")
                yield f"Channels of {files} of the source {name!r} are {verb}, such as {min(lines)}"
