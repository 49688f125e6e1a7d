"""The previous version, whose files a new one links if their content stays the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks import plugins
from tasks.dataset import datacard
from tasks.errors import ConfigError
from tasks.formats import PublishedFile
from tasks.recipe import whole_job
from tasks.settings import Plugin


@dataclass(frozen=True, slots=True)
class PreviousVersion:
    """Its folder, its dataset.json, the columns of its utterances, and those of some groups.

    `places`: first row and rows of each of these groups in `rows`, by split and number.
    """

    home: Path
    described: dict[str, Any]
    columns: tuple[str, ...]
    rows: pa.Table | None = None
    places: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def has_format(self, plugin: Plugin) -> bool:
        """Whether it holds the format in the same version and with the same settings."""
        module = plugins.load("formats", plugin.use)
        if self.described["formats"].get(plugin.use) != module.VERSION:
            return False
        try:
            then = whole_job.settings_of_plugin(
                "formats", datacard.formats_of(self.described)[plugin.use]
            )
        except ConfigError:  # a setting that the plug-in no longer has
            return False
        return then == whole_job.settings_of_plugin("formats", plugin)

    def files(self, paths: Iterable[str]) -> tuple[PublishedFile, ...]:
        """These of its files; empty if it lacks one of them."""
        known: Mapping[str, Any] = self.described["files"]
        wanted = list(paths)
        if any(path not in known for path in wanted):
            return ()
        return tuple(
            PublishedFile(str(self.home / path), known[path]["sha256"], known[path]["bytes"])
            for path in wanted
        )
