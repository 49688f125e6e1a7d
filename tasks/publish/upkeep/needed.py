"""Which checkpoints of a shard some settings still need, whatever their thresholds are.

Measures, PCM and transcripts are found by recipe, as in `view.py`. A part is needed when any of its
rows is, and a blob when a part that stays names it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pyarrow.compute as pc

from tasks.base.schema import RecordingRow
from tasks.recording.limits import REFUSED
from tasks.settings.job import Job
from tasks.shard_store import (
    annotated,
    blobs,
    enhanced,
    llm_answers,
    manifest,
    recipe,
    reference_words,
)
from tasks.shard_store.cuts import TURNS
from tasks.shard_store.manifest import Part
from tasks.shard_store.shard_view import ShardView
from tasks.shard_store.utterance import HeardUtterance


@dataclass(frozen=True, slots=True)
class KeptSettings:
    """Settings whose results stay.

    `current`: a run with them may come, so what cannot be decided before it has cut a recording
    stays, too.
    """

    job: Job
    weights: str  # of the recogniser's model
    current: bool = True


@dataclass(slots=True)
class Unneeded:
    """Files of a shard that may be removed. `uncut`: recordings that a run still has to cut. While
    there are any, PCM and transcripts stay."""

    manifests: list[Path] = field(default_factory=list)
    audio: list[Path] = field(default_factory=list)
    uncut: int = 0


class _View(ShardView):
    """The view of a shard that includes recordings of kept versions that left their source.

    `live`: names of the recordings in kept versions; None if there is no version: all count.
    """

    def __init__(self, settings: KeptSettings, shard: str, live: Collection[str] | None) -> None:
        super().__init__(settings.job, shard, settings.weights)
        self.live = live

    @cached_property
    def recordings(self) -> list[RecordingRow]:
        rows, live = manifest.listed(self.job.out, self.shard).to_pylist(), self.live
        return [r for r in rows if r["present"] or live is None or r["recording"] in live]

    @cached_property
    def wanted_cuts(self) -> set[str]:
        return {self.cut_recipe(row) for row in self.processed if not row["error_code"]}

    @cached_property
    def wanted_turns(self) -> set[str | None]:
        return {self.turned(row)[0] for row in self.processed if not row["error_code"]} - {None}

    @cached_property
    def uncut(self) -> int:
        cuts = (self.cut_of(row) for row in self.processed if not row["error_code"])
        return sum(cut is None or not cut.known for cut in cuts)

    @cached_property
    def cut(self) -> list[HeardUtterance]:
        """All utterances, rejected ones included, none of them heard yet."""
        return [HeardUtterance(u, u.outcome, u.measures) for u in self.filtered()]

    @cached_property
    def wanted_audio(self) -> set[str]:
        """Recipes of their PCM."""
        audio = {u.cut.audio for u in self.cut}
        audio |= {turn.audio for u in self.cut for turn in self.own_turns(u.cut)}
        return audio | {u.cut.enhanced for u in self.cut if u.cut.enhanced}

    @cached_property
    def first_texts(self) -> set[str]:
        """Recipes of their transcripts, if none depends on another transcript."""
        return {self.transcript_recipe(u) for u in self.cut}

    @cached_property
    def wanted_texts(self) -> set[str]:
        """Recipes of all their transcripts. Some depend on rules, so this takes all of them."""
        texts = set(self.first_texts)
        for utterance in self.transcribed():
            texts.add(self.transcript_recipe(utterance.heard))  # in the language voted for
            if self.job.transcribe.backends:
                texts.update(self.further_recipes(utterance.heard))
            texts.update(request.recipe for request in self.questions(utterance.heard))
            texts.update(turn.recipe for turn in self.channel_turns(utterance.heard))
            answer = llm_answers.request_for(self.job, utterance.heard)
            if answer is not None:
                texts.add(answer.recipe)
            if asked := reference_words.request_for(self.job, self.weights, utterance.heard):
                texts.add(asked.recipe)
        if self.job.transcribe.backends:
            texts |= {text for u in self.cut for text in self.further_recipes(u)}
        if recipe.enhancing(self.job) and enhanced.heard(self.job):
            for heard in self.cut:  # thresholds choose which of the two is heard
                clean = replace(heard, hears=heard.cut.enhanced)
                texts.add(self.transcript_recipe(clean))
                texts.update(self.further_recipes(clean))
        return texts


def unneeded(
    out: Path, shard: str, kept: Sequence[KeptSettings], live: Collection[str] | None
) -> Unneeded:
    """The files of a shard that none of the settings needs. Damaged parts are left to the next run.
    A shard whose own manifest is lost keeps everything, because its needs are unknown."""
    snapshots = manifest.read(out, "shard", shard)
    if not snapshots:
        return Unneeded()
    views = [_View(settings, shard, live) for settings in kept]
    uncut = sum(v.uncut for v, settings in zip(views, kept, strict=True) if settings.current)
    files = Unneeded([part.path for part in snapshots[:-1]], uncut=uncut)
    cuts = manifest.read(out, "filter", shard)
    needed = {path for view in views for path in _cuts(view, cuts)}
    files.manifests += _beside(cuts, needed)
    if uncut:
        return files
    sizes = blobs.sizes(out, shard)
    audio = {name for view in views for name in view.wanted_audio}
    parts = manifest.read(out, "resample", shard)
    needed = set()
    for part in parts:
        rows = part.table.select(["audio", "blob", "offset", "num_samples", "error_code"])
        used = (row for row in rows.to_pylist() if row["audio"] in audio)
        if any(row["error_code"] or blobs.present(row, sizes) for row in used):
            needed.add(part.path)
    files.manifests += _beside(parts, needed)
    stay = (part.table["blob"] for part in parts if part.path in needed)
    named = {name for blob in stay for name in blob.to_pylist()}
    parts, needed = manifest.read(out, "transcribe", shard), set()
    for part in parts:
        transcripts = part.table["transcript"].to_pylist()
        if not all(view.first_texts.isdisjoint(transcripts) for view in views) or not all(
            view.wanted_texts.isdisjoint(transcripts) for view in views
        ):
            needed.add(part.path)
    files.manifests += _beside(parts, needed)
    files.audio = [path for path in blobs.files(out, shard) if path.name not in named]
    return files


def _beside(parts: Sequence[Part], needed: Collection[Path]) -> list[Path]:
    """Files none of whose parts is needed."""
    return [path for path in dict.fromkeys(part.path for part in parts) if path not in needed]


def _cuts(view: _View, parts: Sequence[Part]) -> list[Path]:
    """Parts of the filter stage that the view takes cuts, measures or failures from."""
    needed, covered = [], set[str]()
    for part in parts:
        usable, stands = view.usable(part)
        rows = part.table.select(["cut", "kind", "error_code"]).to_pylist()
        if any(row["kind"] == TURNS and row["cut"] in view.wanted_turns for row in rows):
            needed.append(part.path)
            continue
        rows = [
            row
            for row in rows
            if row["cut"] in view.wanted_cuts and (stands or not row["error_code"])
        ]
        fresh = {r["cut"] for r in rows if r["kind"] == "recording"} - covered
        covered |= {r["cut"] for r in rows if r["cut"] in fresh and r["error_code"] not in REFUSED}
        if rows and (fresh or any(r["error_code"] for r in rows) or _measured(part) & _of(usable)):
            needed.append(part.path)
    return needed


def _of(filters: Collection[str]) -> set[str]:
    """Columns of filters, and the keys of their annotations and fingerprints."""
    return {name for use in filters for name in annotated.stored_of(use)}


def _measured(part: Part) -> set[str]:
    """Columns, and keys of annotations, that a part holds anything of."""
    names: set[str] = set()
    for name in ("measures", "prints"):
        for chunk in part.table[name].chunks if name in part.table.column_names else ():
            names.update(pc.unique(chunk.keys).to_pylist())
    return names
