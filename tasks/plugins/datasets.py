"""The sources of a run, each with the name of its dataset."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from tasks import settings
from tasks.errors import ConfigError
from tasks.plugins.contracts import Source
from tasks.plugins.loading import resolve_source
from tasks.settings import SourceSettings


class Dataset(NamedTuple):
    """One source; `name` is in the ids of its recordings."""

    name: str
    source: Source
    settings: SourceSettings


def datasets(sources: Sequence[settings.Source]) -> list[Dataset]:
    """All sources in order, named by their settings, else after their path; ConfigError where two
    have one name."""
    found: list[Dataset] = []
    for each in sources:
        source, chosen = resolve_source(each)
        taken = {dataset.name for dataset in found}
        name = chosen.name
        if not name:
            stem = Path(chosen.path).name.split(".")[0] or "source"
            base = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in stem)
            base = base[:30] or "source"
            numbered = (f"{base}-{i}" for i in count(2))
            name = next(n for n in chain([base], numbered) if n not in taken)
        if name in taken:
            raise ConfigError(f"two sources are named {name!r}; give each source a name of its own")
        found.append(Dataset(name, source, chosen))
    return found
