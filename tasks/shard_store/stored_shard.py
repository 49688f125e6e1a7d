"""The stored results of one shard, joined by recipe: cuts, turns, PCM and transcripts.

Nothing here computes more than a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from ..base.schema import CutRow, EnhancedRow, RecordingRow, TranscriptRow
from ..recording import Segment, names
from ..recording.limits import Limits
from ..recording.tracks import channels_of, file_channel, may_be_non_finite, track_of
from ..recording.turns import Turn
from ..settings import FilterSettings
from ..settings.job import Job
from . import blobs, cuts, decision_log, manifest, recipe
from .cuts import Cut, segment_of, segments_of, speakers_of
from .decision_log import Decision
from .utterance import HeardUtterance


class StoredShard:
    """The manifests of one shard, each read at its first use.

    `damaged` is called for each damaged manifest; its items count as missing. `listed`: the
    recordings that the shard's sources list now, if that is not committed yet. `again`: failures
    that are not the item's fault count as missing results, for a run that retries them.
    """

    def __init__(
        self,
        job: Job,
        shard: str,
        damaged: manifest.OnDamage = manifest.leave,
        listed: Sequence[RecordingRow] | None = None,
        again: bool = False,
    ) -> None:
        self.job, self.shard, self._damaged = job, shard, damaged
        self._listed, self._again = listed, again
        self._read: dict[str, list[manifest.Part]] = {}
        self.lost: dict[str, str] = {}  # blob that is gone or truncated, by recipe of the PCM

    def _parts(self, stage: str) -> list[manifest.Part]:
        if stage not in self._read:
            parts = manifest.read(self.job.out, stage, self.shard, self._damaged)
            if stage in manifest.KEYS:
                tables = [part.table for part in parts]
                tables = manifest.last_results(stage, tables, self._again)
                parts = [replace(p, table=table) for p, table in zip(parts, tables, strict=True)]
            self._read[stage] = parts
        return self._read[stage]

    @cached_property
    def recordings(self) -> list[RecordingRow]:
        """Recordings that are still in their source (and in the sample, if there is one), in
        listing order."""
        if self._listed is not None:
            rows = list(self._listed)
        else:
            parts = self._parts("shard")
            rows = parts[-1].table.to_pylist() if parts else []
        only = self.job.only
        return [r for r in rows if r["present"] and (only is None or r["recording"] in only)]

    @cached_property
    def originals(self) -> dict[str, RecordingRow]:
        """By the name of each copy, the recording that is processed instead. If `package` chooses
        or weighs by source, recordings of two sources are never copies."""
        if self.job.filter.duplicate_files == "keep":
            return {}
        by_name = {row["recording"]: row for row in self.recordings}
        named = ((row, by_name.get(row.get("copy_of") or "")) for row in self.recordings)
        apart = tells_datasets_apart(self.job)
        return {
            row["recording"]: original
            for row, original in named
            if original is not None and not (apart and original["dataset"] != row["dataset"])
        }

    @cached_property
    def processed(self) -> list[RecordingRow]:
        return [row for row in self.recordings if row["recording"] not in self.originals]

    @cached_property
    def contents(self) -> dict[str, str]:
        """`samples_of` each recording, by its name."""
        return {row["recording"]: samples_of(row, self.job.filter) for row in self.recordings}

    @cached_property
    def cut_recipes(self) -> dict[str, str]:
        """The recipe of each recording's cuts, by its name."""
        of = recipe.cut_recipes(self.job.filter.segmenter, self.job.speakers)
        recipes = {}
        for row in self.recordings:
            name, turns = row["recording"], self._of_turns(row)
            given = segments_of(row)
            recipes[name] = of(self.contents[name], given, turns, row["text"], row["language"])
        return recipes

    def _of_turns(self, recording: RecordingRow) -> str | None:
        if self.job.speakers.use == "none":
            return None
        named, fault = speakers_of(recording), recording.get("rttm_error")
        content = self.contents[recording["recording"]]
        return recipe.of_turns(self.job.speakers, content, named, fault)

    def turned(self, recording: RecordingRow) -> tuple[str | None, tuple[Turn, ...] | None]:
        """The recipe of a recording's turns, None without diarization; and the turns, None while
        unknown."""
        name = self._of_turns(recording)
        return name, None if name is None else self.turns.get(name)

    @cached_property
    def wanted(self) -> dict[str, str]:
        return recipe.of_filters(self.job)

    @cached_property
    def cuts(self) -> dict[str, Cut]:
        """Everything the filter stage stored for the shard, by recipe of the cut."""
        by_recipe: dict[str, Cut] = {}
        for part in self._parts("filter"):
            cuts.merge(by_recipe, part.table, *self.usable(part))
        for cut in by_recipe.values():
            cut.count_faults()
        return by_recipe

    def usable(self, part: manifest.Part) -> tuple[set[str], bool]:
        """The filters whose measures in a part have the current recipe, and whether all failures
        count: any of its filters may have caused one that does not lie in the file, so it counts
        only if all of them are still used with the same recipe."""
        stored: Mapping[str, str] = part.meta["measures"]
        filters = {use for use, wanted in self.wanted.items() if stored.get(use) == wanted}
        return filters, filters == set(stored)

    def cut_of(self, recording: RecordingRow) -> Cut | None:
        """The filter stage's result for a recording, or its refusal if it is beyond a limit; None
        if it failed earlier, or has no result yet."""
        return self._cut_by_name[recording["recording"]]

    @cached_property
    def _cut_by_name(self) -> dict[str, Cut | None]:
        limits = Limits.from_settings(self.job.filter)
        return {row["recording"]: self._cut_of(row, limits) for row in self.recordings}

    def _cut_of(self, recording: RecordingRow, limits: Limits) -> Cut | None:
        if recording["error_code"]:
            return None
        rate, channels = recording["header_rate"], recording["header_channels"] or 1
        size, seconds = recording["size"], recording["header_seconds"] or 0.0
        refusal = limits.of_header(recording["format"] or "", rate or 1, channels, size, seconds)
        if refusal is not None:
            return Cut.refused(refusal, rate or 0)
        cut = self.cuts.get(self.cut_recipes[recording["recording"]])
        cut = cut and cut.within(limits, channels, size)
        if cut is None or not self.people:
            return cut
        return recut(cut, recording, segments_of(recording), self.people)

    @cached_property
    def people(self) -> Mapping[str, Decision]:
        """Decisions by people, by utterance id."""
        return decision_log.by_utterance(self.job)

    @cached_property
    def turns(self) -> dict[str, tuple[Turn, ...]]:
        """Turns that the filter stage stored, by recipe."""
        by_recipe: dict[str, tuple[Turn, ...]] = {}
        for part in self._parts("filter"):
            cuts.merge_turns(by_recipe, part.table)
        return by_recipe

    @cached_property
    def audio(self) -> dict[str, EnhancedRow]:
        """Rows of failures, and of PCM whose blob exists, by recipe."""
        sizes = blobs.sizes(self.job.out, self.shard)
        by_recipe: dict[str, EnhancedRow] = {}
        for part in self._parts("resample"):
            for row in part.table.to_pylist():
                if row["error_code"] or blobs.present(row, sizes):
                    by_recipe[row["audio"]] = row
                else:
                    self.lost[row["audio"]] = row["blob"]
        return by_recipe

    @cached_property
    def transcripts(self) -> dict[str, TranscriptRow]:
        by_recipe: dict[str, TranscriptRow] = {}
        for part in self._parts("transcribe"):
            for row in part.table.to_pylist():
                by_recipe.setdefault(row["transcript"], row)  # the first text of a recipe counts
        return by_recipe

    @cached_property
    def weights(self) -> str:
        return recipe.weights_of(self.job.transcribe.recognisers)

    @cached_property
    def _transcript_recipes(self) -> Callable[[str, str | None, Sequence[str]], str]:
        return recipe.transcript_recipes(
            self.job.transcribe.backend, self.weights.partition("\n")[0]
        )

    def transcript_recipe(self, utterance: HeardUtterance, audio: str | None = None) -> str:
        """Recipe of the utterance's transcript; `audio`: from the PCM with this recipe."""
        audio = audio or utterance.hears or utterance.cut.audio
        members = utterance.cut.window.audio if utterance.cut.window else ()
        return self._transcript_recipes(audio, utterance.forced, members)

    def further_recipes(self, utterance: HeardUtterance) -> tuple[str, ...]:
        """Recipes of the utterance's transcripts by further recognisers, if any are configured, as
        if each of them were the only one."""
        others = self.job.transcribe.recognisers[1:], self.weights.split("\n")[1:]
        audio, language = utterance.hears or utterance.cut.audio, utterance.forced
        return tuple(
            recipe.of_transcript(backend, weights, audio, language)
            for backend, weights in zip(*others, strict=True)
        )


def tells_datasets_apart(job: Job) -> bool:
    """Whether `package` chooses or weighs by source, so that recordings of two sources are never
    copies of each other."""
    package = job.package
    chosen = any(choice and choice.dataset for choice in (package.only, package.without))
    return len(job.sources) > 1 and (chosen or bool(package.weights))


def samples_of(
    recording: RecordingRow, settings: FilterSettings, channel: int | None = None
) -> str:
    """The content of a hashed recording for recipes of cuts, turns and PCM: `part_of`, and whether
    NaN and infinite samples become silence."""
    silenced = settings.non_finite == "silence" and may_be_non_finite(recording)
    return f"{part_of(recording, channel)} silenced {silenced}"


def part_of(recording: RecordingRow, channel: int | None = None) -> str:
    """The digest of a hashed recording's file, and which part of that it is: its track and channels
    (None: all). `channel`: of this channel alone, as if it were a recording."""
    picked = channels_of(recording) if channel is None else file_channel(recording, channel)
    return f"{recording['content']} track {track_of(recording)} channels {picked and [*picked]}"


# Clips that a person cut again: new boundaries for an utterance of a stored cut.
#
# The new clip replaces the old one. It has another id, since ids contain times, and gets measures,
# PCM and a text as any other clip. Samples that no clip covers any more are `unsegmented`.


LEFT = "cut_by_person"  # reason of samples that no clip covers any more


def recut(
    cut: Cut,
    recording: RecordingRow,
    given: Sequence[Segment] | None,
    people: Mapping[str, Decision],
) -> Cut:
    """The cut with the clips that decisions by people (by utterance id) cut again; unchanged
    without any."""
    spans: list[CutRow] = []
    left: list[CutRow] = []
    again = {}
    for span in cut.spans:
        decision, moved = _moved_bounds(span, cut, recording, given, people)
        spans.append(moved)
        if decision is not None:
            again[moved["start"], moved["end"], moved["given"]] = decision
            left.append({**span, "kind": "unsegmented", "reason": LEFT})
    return replace(cut, spans=[*spans, *left], recut=again) if again else cut


def _moved_bounds(
    span: CutRow,
    cut: Cut,
    recording: RecordingRow,
    given: Sequence[Segment] | None,
    people: Mapping[str, Decision],
) -> tuple[Decision | None, CutRow]:
    """The last decision `recut` on the span, and the resulting span: a clip may be cut again
    repeatedly."""
    last, seen = None, set[str]()
    while span["kind"] == "utterance":
        segment = segment_of(span, cut.rate, given)
        key = segment.source_id if segment else None
        times = span["start"] / cut.rate, span["end"] / cut.rate
        name = names.utterance_id(recording["dataset"], recording["path"], *times, key)
        decision = people.get(name)
        if decision is None or decision.start is None or decision.end is None or name in seen:
            break
        seen.add(name)
        start = min(max(round(decision.start * cut.rate), 0), cut.decoded)
        end = min(max(round(decision.end * cut.rate), 0), cut.decoded)
        if start >= end:  # it lies beyond the recording
            break
        last, span = decision, {**span, "start": start, "end": end}
    return last, span
