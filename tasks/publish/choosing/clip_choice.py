"""Chooses clips by speaker, dataset, language and label: `package.only` and `package.without`.

Other clips are dropped as `package.not_chosen`, after all rules and before weights, hours per
speaker and splits. Their checkpoints stay in OUT, so another choice recomputes nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins
from ...base import language_codes
from ...base.arrays import Bools
from ...base.errors import ConfigError
from ...settings import PackageSettings
from ...settings.job import Job
from ...settings.package import ClipChoice
from ..published_columns import labels_kept
from .components import speakers_in

REASON = "not_chosen"
COLUMNS = ("dataset", "speaker", "language")
MOST = 10  # names that a message lists


def restricts(package: PackageSettings) -> bool:
    """Whether the settings restrict the choice of clips."""
    return package.only is not None or package.without is not None


def check(job: Job) -> None:
    """Raises ConfigError for a dataset or a label that no source has."""
    labels = labels_kept(job)
    datasets = [dataset.name for dataset in plugins.datasets(job.sources)]
    for setting, kind, names in _wanted(job.package):
        label = kind.removeprefix("labels.")
        if kind != label and label not in labels:
            raise ConfigError(
                f"package.{setting}.labels: no source keeps a label {label!r}; "
                + (
                    f"there are: {', '.join(labels)}"
                    if labels
                    else f"set `labels: [{label}]` on the source, and run"
                )
            )
        unknown = [name for name in names if name not in datasets]
        if kind == "dataset" and unknown:
            raise ConfigError(
                f"package.{setting}.dataset: there is no dataset {unknown[0]!r}; there are: "
                f"{', '.join(datasets)}"
            )
    for name in job.package.weights:
        if name not in datasets:
            raise ConfigError(
                f"package.weights.{name}: there is no such dataset; there are: "
                f"{', '.join(datasets)}"
            )


def _wanted(package: PackageSettings) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(setting, kind, names) for each criterion: setting `only` or `without`; kind one of COLUMNS,
    or `labels.NAME`; the names to match."""
    for setting in ("only", "without"):
        choice: ClipChoice | None = getattr(package, setting)
        for kind in COLUMNS if choice else ():
            if names := getattr(choice, kind):
                yield setting, kind, names
        for label, values in (choice.labels or {}).items() if choice else ():
            yield setting, f"labels.{label}", values


def chosen(package: PackageSettings, rows: pa.Table) -> Bools:
    """Which rows (COLUMNS) are chosen; bool [rows]. A row whose language is not detected yet (null,
    with `pending` true) matches every `only.language`."""
    good = np.ones(len(rows), bool)
    for setting, kind, names in _wanted(package):
        named = _named(rows, kind, names)
        good &= named | _language_pending(rows, kind) if setting == "only" else ~named
    return good


class Named:
    """Collects the clips' names, to report settings that match none."""

    def __init__(self, package: PackageSettings) -> None:
        self._wanted = [wanted for wanted in _wanted(package) if wanted[1] != "dataset"]
        self._names: dict[str, set[str]] = {kind: set() for _, kind, _ in self._wanted}

    def add(self, rows: pa.Table) -> None:
        """The next clips (COLUMNS)."""
        for kind, names in self._names.items():
            columns = [_column(rows, kind)]
            if kind == "speaker":
                columns.append(speakers_in(rows))
            for column in columns:
                names.update(filter(None, pc.unique(column).to_pylist()))

    def unmatched(self) -> Iterator[str]:
        """A message for each setting with names that no clip has."""
        for setting, kind, wanted in self._wanted:
            of_clips = self._names[kind]
            matched = _of_language if kind == "language" else operator.eq
            lacking = [name for name in wanted if not any(matched(name, one) for one in of_clips)]
            if lacking:
                some = sorted(of_clips, key=lambda name: ("/" in name, name))
                shown = ", ".join(some[:MOST]) + (" …" if len(some) > MOST else "")
                yield (
                    f"package.{setting}.{kind}: no clip has {', '.join(map(repr, lacking))}; "
                    + (f"there are: {shown}" if of_clips else "no clip has any")
                )


def _of_language(wanted: str, language: str) -> bool:
    """Whether a clip's language matches the wanted one, in any spelling that sources use:
    `English`, `eng` and `en` are equal, `en_US` and `en-us` too; a wanted `en` matches every
    variety."""
    one, other = (
        (language_codes.read(name) or name).replace("_", "-").lower() for name in (wanted, language)
    )
    return one == other or one == other.partition("-")[0]


def _column(rows: pa.Table, kind: str) -> pa.ChunkedArray:
    if kind in COLUMNS:
        return rows[kind]
    return pc.map_lookup(rows["labels"], kind.removeprefix("labels."), "first")


def _named(rows: pa.Table, kind: str, names: tuple[str, ...]) -> Bools:
    column = _column(rows, kind)
    if kind == "language":
        languages = filter(None, pc.unique(column).to_pylist())
        names = tuple(one for one in languages if any(_of_language(name, one) for name in names))
    wanted = pa.array(names, pa.string())
    named = pc.is_in(column, wanted)
    if kind == "speaker":
        named = pc.or_(named, pc.is_in(speakers_in(rows), wanted))
    return np.asarray(named, bool)


def _language_pending(rows: pa.Table, kind: str) -> Bools:
    if kind != "language" or "pending" not in rows.column_names:
        return np.zeros(len(rows), bool)
    return np.asarray(pc.and_(rows["pending"], pc.is_null(rows["language"])), bool)
