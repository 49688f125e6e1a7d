"""The columns of annotations in a version: labels, and the annotations that `package.publish`
names.

The metadata of a column are `annotation` (its kind), `rate` (of an array), and `published` if
formats hold the column, too.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .. import plugins
from ..base.errors import ConfigError
from ..base.logs import log
from ..corpus import voices
from ..plugins.annotation_kinds import Annotation, Array, Event
from ..recording import turns
from ..settings.job import Job
from ..shard_store import annotated, recipe
from ..shard_store.annotated import SPOKEN
from ..shard_store.shard_view import ShardView
from ..shard_store.utterance import FinalUtterance
from .planned_columns import turns_kept

WORDS = "words"
#: Columns that exist without `package.publish`, and their names there; `turns` only if clips hold
#: several turns.
PRESENT = {"word_times": WORDS, "turns": "turns"}


def check(job: Job) -> None:
    """Raises ConfigError if `package.publish` names something that no plug-in gives; warns of each
    format that cannot hold the annotations."""
    declared = {one.name for one in annotated.of_job(job)}
    for name in job.package.publish:
        present = name == "turns" and turns_kept(job)
        if name in SPOKEN and not (present or recipe.speaking(job)):
            raise ConfigError(f"package.publish: {name} needs a diarizer: set speakers.use")
        if name not in declared | SPOKEN.keys() | {WORDS}:
            names = ", ".join(sorted({*declared, *SPOKEN, WORDS}))
            raise ConfigError(f"package.publish: nothing gives {name!r}; it may name {names}")
    for plugin in job.package.formats if job.package.publish else ():
        module, settings = plugins.FORMATS.resolve(plugin)
        if not (module.holds_annotations(settings) or module.lists_annotations(settings)):
            able = f", and {{use: {plugin.use}, facts: true}} writes it beside each clip"
            log.warning(
                "package.publish: the format %s has no field for %s; utterances.parquet holds it, "
                "by id%s",
                plugin.use,
                ", ".join(job.package.publish),
                able if module.HOLDS_ANNOTATIONS else "",
            )


def fields(job: Job) -> list[pa.Field]:
    """The columns of annotations."""
    publish = job.package.publish
    declared = {one.name: one.kind for one in annotated.of_job(job)}
    declared |= {name: SPOKEN[name] for name in _spoken(job)}
    return [
        pa.field(name, kind.type, metadata=_metadata(kind, name in publish))
        for name, kind in declared.items()
        if name in publish or not kind.large
    ]


def marked(job: Job, field: pa.Field) -> pa.Field:
    """A column of every version, marked as published if `package.publish` names it."""
    if PRESENT.get(field.name) not in job.package.publish:
        return field
    return field.with_metadata({**(field.metadata or {}), b"published": b"yes"})


def _metadata(kind: Annotation, published: bool) -> dict[str, str]:
    described = {"doc": f"{kind.doc} ({kind.name}: {kind.extent})", "unit": kind.unit}
    described |= {"annotation": kind.name}
    described |= {"rate": f"{kind.rate:g}"} if isinstance(kind, Array) else {}
    return {**described, **({"published": "yes"} if published else {})}


def _spoken(job: Job) -> list[str]:
    """The names in `package.publish` that a diarizer's turns give. Clips of several turns have the
    column `turns` anyway."""
    kept = {"turns"} if turns_kept(job) else set()
    return [name for name in SPOKEN if name in job.package.publish and name not in kept]


class Values:
    """Values of `fields` for the utterances of a shard, except filters' labels, which are stored as
    measures."""

    def __init__(self, view: ShardView) -> None:
        self._view, publish = view, view.job.package.publish
        declared = annotated.of_job(view.job)
        self._large = [one for one in declared if one.kind.large and one.name in publish]
        self._labels = [one.name for one in declared if one.shelf == "text" and not one.kind.large]
        self._spoken = _spoken(view.job)
        self.names = [*self._labels, *(one.name for one in self._large), *self._spoken]
        self._voices: tuple[str, dict[str, bytes]] = ("", {})  # of the last recording, by name

    def of(self, u: FinalUtterance) -> dict[str, object]:
        """The utterance's value for each of `names`."""
        values = {name: u.texts.get(name) for name in self._labels}
        values |= {one.name: annotated.value_of(one, u) for one in self._large}
        if "turns" in self._spoken:
            values["turns"] = self._turns(u)
        if "speaker_embedding" in self._spoken:
            values["speaker_embedding"] = self._embedding(u)
        return values

    def _turns(self, u: FinalUtterance) -> list[dict[str, object]] | None:
        """Turns within the clip, in s from its start; None if the recording has none."""
        spoken, rate = self._view.turned(u.cut.recording)[1], u.cut.rate
        if spoken is None:
            return None
        return [
            Event(
                turn.start / rate,
                turn.end / rate,
                turns.name_of([turn], turn.speaker, u.cut.recording["path"]),
            )._asdict()
            for turn in turns.within(spoken, u.cut.start, u.cut.end)
        ]

    def _embedding(self, u: FinalUtterance) -> np.ndarray | None:
        """Embedding of the clip's speaker, float32 [SIZE], of length 1; None without one."""
        name = u.cut.recording["recording"]
        if self._voices[0] != name:
            spoken = self._view.turned(u.cut.recording)[1] or ()
            self._voices = (
                name,
                {
                    turns.name_of((), row["number"] - 1, u.cut.recording["path"]): row["vector"]
                    for row in voices.of_turns(u.cut.recording, spoken, u.cut.rate)
                },
            )
        vector = self._voices[1].get(u.cut.voice or "")
        return None if vector is None else np.frombuffer(vector, "<f2").astype(np.float32)
