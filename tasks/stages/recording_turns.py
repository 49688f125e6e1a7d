"""Finds who speaks in a recording, before it is cut: a separate decode, unless its turns are
known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import audio, plugins
from ..base.errors import ItemError
from ..base.schema import CutRow, RecordingRow, TurnRow
from ..plugins.contracts import SegmenterPlugin
from ..recording import Segment
from ..recording.limits import Limits
from ..recording.tracks import locator_of
from ..recording.turns import Turn, Voices, voices_in
from ..segmenters import Segmenter, Span
from ..settings import StageSettings
from ..settings.job import Job
from ..shard_store import cuts

Turns = tuple[Turn, ...]


def turns_of(
    recipe: str | None, stored: Turns | None, recording: RecordingRow, job: Job
) -> tuple[Turns | None, list[CutRow]]:
    """A recording's turns, and the row to store if they are new; None without diarization.
    ItemError if it cannot be decoded to its end, or is beyond a limit."""
    if recipe is None or stored is not None:
        return stored, []
    module, settings = plugins.DIARIZERS.resolve(job.speakers)
    if module.USES_SPEAKERS and (wrong := recording.get("rttm_error")):
        raise ItemError("bad_rttm", wrong)
    locator, limits = locator_of(recording, job.filter), Limits.from_settings(job.filter)
    with audio.open_stream(locator, limits) as stream:
        diarizer = module.start(settings, stream.rate, cuts.speakers_of(recording) or ())
        for block in stream.listened().process(stream.blocks()):
            diarizer.push(block)
        rate = stream.rate
    turns = diarizer.finish()
    row: CutRow = {
        "cut": recipe,
        "recording": recording["recording"],
        "kind": cuts.TURNS,
        "start": 0,
        "end": 0,
        "rate": rate,
        "turns": [_row(turn) for turn in turns],
        "measures": [],
    }
    return turns, [row]


def _row(turn: Turn) -> TurnRow:
    return {
        "start": turn.start,
        "end": turn.end,
        "speaker": turn.speaker,
        "name": turn.name,
        "confidence": turn.confidence,
        "voice": turn.voice,
        "both": turn.both,
        "channel": turn.channel,
    }


def voices(turns: Turns | None, job: Job) -> Callable[[int], Voices | None]:
    """The turns in the form for segmenters, at the recording's rate; None if there are none."""
    if not turns:
        return lambda rate: None
    _, settings = plugins.DIARIZERS.resolve(job.speakers)
    values = settings.model_dump()
    shortest, mixed = values.get("min_turn_seconds", 0.0), values.get("mixed", False)
    edge, second = values.get("edge_seconds", 0.0), values.get("max_second_voice")
    most = 1.0 if second is None else second
    return lambda rate: Voices(turns, round(shortest * rate), mixed, round(edge * rate), most)


def segmenter(
    module: SegmenterPlugin,
    settings: StageSettings,
    rate: int,
    given: Sequence[Segment],
    turn_voices: Voices | None,
) -> Segmenter:
    """The segmenter of a recording; it cuts at turns if they are known and clips may hold only one
    voice, or if its clips hold turns."""
    if module.HOLDS_TURNS:
        assert module.at_turns is not None
        return module.at_turns(settings, rate, given, turn_voices or Voices(()))
    if turn_voices is None or turn_voices.mixed or module.at_turns is None:
        return module.start(settings, rate, given)
    return module.at_turns(settings, rate, given, turn_voices)


def voice_of(span: Span, turns: Turns | None) -> int | None:
    """The speaker of an utterance: of the turn it was cut from, else the one who speaks longest in
    it."""
    if span.voice is not None or span.kind != "utterance" or not turns:
        return span.voice
    heard = voices_in(turns, span.start, span.end)
    return min(heard, key=lambda speaker: (-heard[speaker], speaker)) if heard else None
