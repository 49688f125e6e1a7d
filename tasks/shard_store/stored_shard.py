"""The stored results of one shard, joined by recipe: cuts, turns, PCM and transcripts.

Nothing here computes more than a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import pyarrow.compute as pc

from .. import plugins
from ..base.schema import CutRow, EnhancedRow, RecordingRow, TranscriptRow
from ..recording import Segment, names, turns
from ..recording.limits import Limits
from ..recording.tracks import channels_of, file_channel, may_be_non_finite, track_of
from ..recording.turns import Turn
from ..settings import FilterSettings
from ..settings.job import Job
from . import blobs, cuts, decision_log, manifest, recipe, requests
from .cuts import Cut, segment_of, segments_of, speakers_of
from .decision_log import Decision
from .recipe import AudioRecipe
from .requests import Asked, ChannelTurn, OwnTurn, Recognition, Request, Window, WindowAudio
from .utterance import Utterance


class Wanted(NamedTuple):
    """PCM that an utterance needs: of its clip, the enhanced one, or a span of one channel."""

    utterance: Utterance
    span: tuple[int, int, str]  # start, end (samples at native rate), recipe of the PCM
    enhanced: bool = False
    channel: int | None = None


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
        self._cut_by_name: dict[str, Cut | None] = {}
        self.lost: dict[str, str] = {}  # blob that is gone or truncated, by recipe of the PCM
        recogniser, settings = plugins.ASR.resolve(job.transcribe.backend)
        self._shared_seconds = float(recogniser.shared_seconds(settings))
        self._hears_channels = requests.asks_channels(job)
        self._enhances, self.writes_sides = recipe.enhancing(job), requests.writes_sides(job)
        by_source = plugins.DIARIZERS.load(job.speakers.use).USES_SPEAKERS
        holds_turns = plugins.SEGMENTERS.load(job.filter.segmenter.use).HOLDS_TURNS
        self._states_turns = by_source and holds_turns  # clips hold the source's segments

    def _parts(self, stage: str) -> list[manifest.Part]:
        if stage not in self._read:
            parts = manifest.read(self.job.out, stage, self.shard, self._damaged)
            if stage in manifest.KEYS:
                last = manifest.last_results(stage, [part.table for part in parts], self._again)
                parts = [replace(p, table=table) for p, table in zip(parts, last, strict=True)]
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
        apart, originals = tells_datasets_apart(self.job), dict[str, RecordingRow]()
        for row in self.recordings:
            original = by_name.get(row.get("copy_of") or "")
            if original and not (apart and original["dataset"] != row["dataset"]):
                originals[row["recording"]] = original
        return originals

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
        name = recording["recording"]
        if name not in self._cut_by_name:
            self._cut_by_name[name] = self._cut_of(recording)
        return self._cut_by_name[name]

    def _cut_of(self, recording: RecordingRow) -> Cut | None:
        if recording["error_code"]:
            return None
        limits = Limits.from_settings(self.job.filter)
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
        """Turns that the filter stage stored, by recipe; the first ones of a recipe count."""
        by_recipe: dict[str, tuple[Turn, ...]] = {}
        for part in self._parts("filter"):
            rows = part.table.filter(pc.equal(part.table["kind"], cuts.TURNS))
            for row in rows.select(["cut", "turns"]).to_pylist():
                by_recipe.setdefault(row["cut"], tuple(Turn(**turn) for turn in row["turns"]))
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

    def transcript_recipe(
        self, utterance: Utterance, audio: str | None = None, voted: str | None = None
    ) -> str:
        """Recipe of the utterance's transcript; `audio`: from the PCM with this recipe; `voted`: in
        this language, unless the source states one."""
        audio = audio or utterance.hears or utterance.audio
        members = utterance.window.audio if utterance.window else ()
        language = utterance.language or voted or utterance.voted
        return self._transcript_recipes(audio, language, members)

    def further_recipes(self, utterance: Utterance, audio: str | None = None) -> tuple[str, ...]:
        """Recipes of the utterance's transcripts by further recognisers, if any are configured, as
        if each of them were the only one. `audio` as above."""
        others = self.job.transcribe.recognisers[1:], self.weights.split("\n")[1:]
        audio = audio or utterance.hears or utterance.audio
        return tuple(
            recipe.of_transcript(backend, weights, audio, utterance.forced)
            for backend, weights in zip(*others, strict=True)
        )

    def stated_turns(self, recording: RecordingRow) -> tuple[Segment, ...] | None:
        """The source's segments, if clips hold turns, and these are its segments."""
        if not self._states_turns or recording.get("rttm") is not None:
            return None
        return segments_of(recording) or ()

    def own_turns(self, utterance: Utterance) -> list[OwnTurn]:
        if not self._hears_channels:  # most jobs
            return []
        recording, window = utterance.recording, (utterance.start, utterance.end)
        speech = self.turned(recording)[1] or ()

        def audio(channel: int) -> AudioRecipe:
            return self._channel_recipes(samples_of(recording, self.job.filter, channel))

        return [*requests.own_turns(window, utterance.rate, speech, self._shared_seconds, audio)]

    def sides(self, utterance: Utterance) -> tuple[str, ...]:
        """The recipes of the PCM of both channels of a clip, if its recording has two and each of
        its turns has one; else none."""
        recording, span = utterance.recording, (utterance.start, utterance.end)
        of_recording = self.cut_of(recording)
        if of_recording is None or of_recording.channels != 2 or utterance.start >= utterance.end:
            return ()
        speech = turns.within(self.turned(recording)[1] or (), *span)
        if not speech or any(turn.channel is None for turn in speech):
            return ()
        contents = (samples_of(recording, self.job.filter, channel) for channel in (0, 1))
        return tuple(self._channel_recipes(content)(*span) for content in contents)

    def companions(self, utterance: Utterance) -> Iterator[Wanted]:
        """The PCM beside that of a clip, as far as the job's settings ask for it."""
        if not (self._hears_channels or self.writes_sides or self._enhances):  # most jobs
            return
        for turn in self.own_turns(utterance):
            yield Wanted(utterance, (turn.start, turn.end, turn.audio), channel=turn.channel)
        span = utterance.start, utterance.end
        for channel, audio in enumerate(self.sides(utterance) if self.writes_sides else ()):
            yield Wanted(utterance, (*span, audio), channel=channel)
        if utterance.enhanced:
            yield Wanted(utterance, (*span, utterance.enhanced), enhanced=True)

    @cached_property
    def _channel_recipes(self) -> Callable[[str], AudioRecipe]:
        return recipe.audio_recipes(requests.of_one_channel(self.job.resample))

    def channel_turns(self, utterance: Utterance) -> tuple[ChannelTurn, ...]:
        """The turns of a transcribed window, with what is stored for their own channels."""
        language = utterance.transcript["language"] if utterance.transcript else None
        stored: list[ChannelTurn] = []
        for turn in self.own_turns(utterance):
            members = turn.window.audio if turn.window else ()
            wanted = self._transcript_recipes(turn.audio, language, members)
            rows = self.audio.get(turn.audio), self.transcripts.get(wanted)
            stored.append(ChannelTurn(turn, wanted, language, *rows))
        return tuple(stored)

    def window(self, audio: str, window: Window | None) -> WindowAudio | None:
        """The window that the PCM of this recipe shares with others."""
        if window is None:
            return None
        rows = (self.audio.get(member) for member in window.audio)
        usable = tuple(row if row and not row["error_code"] else None for row in rows)
        return WindowAudio(window.audio, usable, window.pauses, window.audio.index(audio))

    def requests_of(self, turns: Sequence[ChannelTurn]) -> Iterator[Request[Asked]]:
        """The requests for turns whose own channels have no transcript yet."""
        for turn in turns:
            if turn.unheard and turn.pcm is not None:
                window = self.window(turn.own.audio, turn.own.window)
                asked = Recognition(turn.recipe, turn.language, None, window=window)
                yield Request(asked, turn.pcm, self.shard)


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
