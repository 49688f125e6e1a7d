"""Chooses clips by speaker, dataset, language and label: `package.only` and `package.without`.

Other clips are dropped as `package.not_chosen`. What is known before a clip is recognised is asked
after the filters, so that no clip is converted and recognised in vain: its dataset, labels, and the
language and speaker that its source states. Languages that a recogniser detects, and names of
speakers across recordings, are asked in `package`, before weights, hours per speaker and splits.
Checkpoints stay in OUT, so another choice computes nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from .. import plugins
from ..base import language_codes
from ..base.arrays import Bools
from ..base.errors import ConfigError
from ..base.schema import RecordingRow
from ..recording.names import OVER_ALL
from ..settings import PackageSettings
from ..settings.job import Job
from ..settings.package import ClipChoice
from . import recipe
from .cuts import segments_of
from .utterance import Outcome, Utterance

REASON = "not_chosen"
NOT_CHOSEN = Outcome("dropped", "package", REASON)  # before recognition; compare with `is`
COLUMNS = ("dataset", "speaker", "language")
MOST = 10  # names that a message lists


class Asked(NamedTuple):
    """What is asked of a clip; None: unknown, or nobody. `later`: kinds (COLUMNS) that are known
    only after recognition, and reject nothing before."""

    dataset: str
    speaker: str | None
    language: str | None
    labels: Mapping[str, str]
    later: tuple[str, ...] = ()


def restricts(package: PackageSettings) -> bool:
    return package.only is not None or package.without is not None


def labels_kept(job: Job) -> list[str]:
    """Names of the labels that the sources keep, in their order."""
    datasets = plugins.datasets(job.sources)
    return [*dict.fromkeys(name for one in datasets for name in one.settings.label_names)]


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
    if [plugin.use for plugin in job.filter.filters].count("voice") > 1:
        raise ConfigError(
            "package: only.voice and without.voice set the filter voice, which filter.filters "
            "lists too; give the examples in one of the two"
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


def choice(package: PackageSettings) -> Callable[[Asked], bool]:
    """A function that says whether a clip is chosen, as far as it is known."""
    wanted = [*_wanted(package)]
    return lambda asked: all(
        kind in asked.later or _matches(asked, kind, names) == (setting == "only")
        for setting, kind, names in wanted
    )


def _matches(asked: Asked, kind: str, names: tuple[str, ...]) -> bool:
    if kind == "speaker":
        return asked.speaker in names or qualified(asked.dataset, asked.speaker) in names
    if kind == "language":
        return any(_of_language(name, asked.language) for name in names)
    value = asked.dataset if kind == "dataset" else asked.labels.get(kind.removeprefix("labels."))
    return value in names


def qualified(dataset: str, speaker: str | None) -> str | None:
    """A unique name of a speaker: a source's name with its dataset; a name of a speaker across
    recordings as it is. None: unknown."""
    if not speaker or OVER_ALL.fullmatch(speaker):
        return speaker or None
    return f"{dataset}/{speaker}"


@lru_cache(4096)
def _of_language(wanted: str, language: str | None) -> bool:
    """Whether a clip's language matches the wanted one, in any spelling that sources use:
    `English`, `eng` and `en` are equal, `en_US` and `en-us` too; a wanted `en` matches every
    variety."""
    if language is None:
        return False
    one, other = (
        (language_codes.read(name) or name).replace("_", "-").lower() for name in (wanted, language)
    )
    return one == other or one == other.partition("-")[0]


def of_clip(job: Job, u: Utterance) -> Asked:
    """What is known of a clip before it is recognised."""
    segment = u.segment or u.turn
    stated = (segment and segment.speaker) or u.recording["speaker"]
    linked = bool(u.voice) and stated is None and recipe.across_recordings(job) is not None
    later = ("speaker",) * linked + ("language",) * (u.language is None)
    speaker = None if linked else u.speaker
    dataset = u.recording["dataset"]
    return Asked(dataset, speaker, u.language, dict(u.labels or ()), later)


def of_uncut(job: Job, row: RecordingRow) -> Callable[[int | None], bool]:
    """A function that says whether a clip may be chosen, from the number of the source's segment
    that it lies in; None: whether any clip of the recording may."""
    if not restricts(job.package):
        return lambda segment: True
    is_chosen, diarized = choice(job.package), job.speakers.use != "none"
    of_recording = dict(row.get("labels") or ())
    parts = [
        (part.speaker or row["speaker"], part.language, of_recording | dict(part.labels))
        for part in segments_of(row) or ()
    ]
    chosen = []
    for speaker, language, labels in parts or [(row["speaker"], None, of_recording)]:
        language = language or row["language"]
        later = ("speaker",) * (speaker is None and diarized) + ("language",) * (language is None)
        chosen.append(is_chosen(Asked(row["dataset"], speaker, language, labels, later)))
    return lambda segment: any(chosen) if segment is None else chosen[segment]


def chosen(package: PackageSettings, rows: pa.Table) -> Bools:
    """Which rows (COLUMNS, perhaps `labels`) are chosen; bool [rows]. A row whose language is not
    detected yet (null, with `pending` true) matches every `only.language`; so do the kinds of a
    row's `later`."""
    takes, wanted = choice(package), (*COLUMNS, "labels", "pending", "later")
    is_chosen = []
    for row in rows.select([name for name in wanted if name in rows.column_names]).to_pylist():
        unknown = row.get("pending") and row.get("language") is None
        later = ("language",) if unknown else tuple(row.get("later") or ())
        dataset, speaker, language = (row.get(name) for name in COLUMNS)
        labels = dict(row.get("labels") or ())
        is_chosen.append(takes(Asked(dataset, speaker, language, labels, later)))
    return np.array(is_chosen, bool)


class Named:
    def __init__(self, package: PackageSettings) -> None:
        self._wanted = [wanted for wanted in _wanted(package) if wanted[1] != "dataset"]
        self._names: dict[str, set[str]] = {kind: set() for _, kind, _ in self._wanted}

    def add(self, rows: pa.Table) -> None:
        """The next clips (COLUMNS, perhaps `labels`)."""
        for kind, names in self._names.items():
            label = kind.removeprefix("labels.")
            if label != kind:
                labels = rows["labels"].to_pylist()
                names.update(dict(pairs or ()).get(label, "") for pairs in labels)
            else:
                names.update(filter(None, rows[kind].unique().to_pylist()))
            if kind == "speaker":
                pairs = zip(rows["dataset"].to_pylist(), rows["speaker"].to_pylist(), strict=True)
                names.update(qualified(*pair) or "" for pair in pairs)
            names.discard("")

    def unmatched(self) -> Iterator[str]:
        for setting, kind, wanted in self._wanted:
            of_clips = self._names[kind]
            lacking = [name for name in wanted if name not in of_clips]
            if kind == "language":
                lacking = [n for n in wanted if not any(_of_language(n, of) for of in of_clips)]
            if lacking:
                some = sorted(of_clips, key=lambda name: ("/" in name, name))
                shown = ", ".join(some[:MOST]) + (" …" if len(some) > MOST else "")
                yield (
                    f"package.{setting}.{kind}: no clip has {', '.join(map(repr, lacking))}; "
                    + (f"there are: {shown}" if of_clips else "no clip has any")
                )
