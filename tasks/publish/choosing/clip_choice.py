"""Chooses clips by speaker, dataset, language and label: `package.only` and `package.without`.

What is not chosen is dropped as `package.not_chosen`, after all rules and before weights, hours per
speaker and splits. It is kept in OUT: another choice computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import plugins
from tasks.base import language_codes
from tasks.base.arrays import Bools
from tasks.base.errors import ConfigError
from tasks.base.json_types import JsonObject
from tasks.publish.choosing.components import speakers_in
from tasks.publish.planned_columns import labels_kept
from tasks.settings import PackageSettings
from tasks.settings.job import Job
from tasks.settings.package import ClipChoice

REASON = "not_chosen"
COLUMNS = ("dataset", "speaker", "language")
MOST = 10  # names that a sentence lists


def asked(package: PackageSettings) -> bool:
    """Whether anything is chosen."""
    return package.only is not None or package.without is not None


def same(package: PackageSettings, then: Mapping[str, JsonObject]) -> bool:
    """Whether the settings of a version, as dataset.json has them, choose alike."""
    now = package.model_dump(mode="json")
    return all(then.get(name) == now[name] for name in ("only", "without"))


def check(job: Job) -> None:
    """ConfigError for a dataset that is not among the sources, or a label that none keeps."""
    labels = labels_kept(job)
    names = [dataset.name for dataset in plugins.datasets(job.sources)]
    for setting in ("only", "without"):
        choice: ClipChoice | None = getattr(job.package, setting)
        for name in choice.dataset if choice else ():
            if name not in names:
                raise ConfigError(
                    f"package.{setting}.dataset: there is no dataset {name!r}; there are: "
                    f"{', '.join(names)}"
                )
        for name in (choice.labels or {}) if choice else ():
            if name not in labels:
                raise ConfigError(
                    f"package.{setting}.labels: no source keeps a label {name!r}; "
                    + (
                        f"there are: {', '.join(labels)}"
                        if labels
                        else f"set `labels: [{name}]` on the source, and run"
                    )
                )


def chosen(package: PackageSettings, rows: pa.Table) -> Bools:
    """Which rows (COLUMNS) are packaged. A language that is still to be heard (rows with a true
    `pending`) may be any."""
    good = np.ones(len(rows), bool)
    if package.only:
        for kind in COLUMNS:
            if names := getattr(package.only, kind):
                good &= _named(rows, kind, names) | _unheard(rows, kind)
        for label, values in (package.only.labels or {}).items():
            good &= _labelled(rows, label, values)
    if package.without:
        for kind in COLUMNS:
            if names := getattr(package.without, kind):
                good &= ~_named(rows, kind, names)
        for label, values in (package.without.labels or {}).items():
            good &= ~_labelled(rows, label, values)
    return good


class Named:
    """The names that clips have of the kinds that are chosen by, to tell those that none has."""

    def __init__(self, package: PackageSettings) -> None:
        self._wanted: dict[tuple[str, str], tuple[str, ...]] = {}  # by setting and kind
        for setting in ("only", "without"):
            choice: ClipChoice | None = getattr(package, setting)
            for kind in ("speaker", "language") if choice else ():
                self._wanted[setting, kind] = getattr(choice, kind)
            for label, values in (choice.labels or {}).items() if choice else ():
                self._wanted[setting, f"labels.{label}"] = values
        self._names: dict[str, set[str]] = {kind: set() for _, kind in self._wanted}

    def add(self, rows: pa.Table) -> None:
        """The next clips (COLUMNS)."""
        for kind, names in self._names.items():
            columns = [rows[kind]] if kind in COLUMNS else []
            if kind == "speaker":
                columns.append(speakers_in(rows))
            if not columns:
                label = kind.removeprefix("labels.")
                columns.append(pc.map_lookup(rows["labels"], label, "first"))
            for column in columns:
                names.update(filter(None, pc.unique(column).to_pylist()))

    def unmatched(self) -> Iterator[str]:
        """A sentence for each setting with names that no clip has."""
        for (setting, kind), wanted in self._wanted.items():
            of_clips = self._names[kind]
            matched = _of_language if kind == "language" else _same
            lacking = [name for name in wanted if not any(matched(name, one) for one in of_clips)]
            if lacking:
                some = sorted(of_clips, key=lambda name: ("/" in name, name))
                shown = ", ".join(some[:MOST]) + (" …" if len(some) > MOST else "")
                yield (
                    f"package.{setting}.{kind}: no clip has {', '.join(map(repr, lacking))}; "
                    + (f"there are: {shown}" if of_clips else "no clip has any")
                )


def _same(wanted: str, name: str) -> bool:
    return wanted == name


def _of_language(wanted: str, language: str) -> bool:
    """Whether a clip's language is the wanted one, both written as sources may: `English`, `eng`
    and `en` are one, and so are `en_US` and `en-us`; a wanted `en` is any English."""
    one, other = (
        (language_codes.read(name) or name).replace("_", "-").lower() for name in (wanted, language)
    )
    return one == other or one == other.partition("-")[0]


def _named(rows: pa.Table, kind: str, names: tuple[str, ...]) -> Bools:
    if kind == "language":
        languages = filter(None, pc.unique(rows[kind]).to_pylist())
        names = tuple(one for one in languages if any(_of_language(name, one) for name in names))
    wanted = pa.array(names, pa.string())
    named = pc.is_in(rows[kind], wanted)
    if kind == "speaker":
        named = pc.or_(named, pc.is_in(speakers_in(rows), wanted))
    return np.asarray(named, bool)


def _labelled(rows: pa.Table, label: str, values: tuple[str, ...]) -> Bools:
    stated = pc.map_lookup(rows["labels"], label, "first")
    return np.asarray(pc.is_in(stated, pa.array(values, pa.string())), bool)


def _unheard(rows: pa.Table, kind: str) -> Bools:
    if kind != "language" or "pending" not in rows.column_names:
        return np.zeros(len(rows), bool)
    return np.asarray(pc.and_(rows["pending"], pc.is_null(rows["language"])), bool)
