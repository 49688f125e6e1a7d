"""Predicts which clips that pass all rules package leaves out, from manifests alone."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.json_types import DatasetJson
from tasks.base.schema import UTTERANCES
from tasks.corpus import voices
from tasks.publish import speakers
from tasks.publish.choosing import clip_choice, selection, split_input
from tasks.settings.job import Job
from tasks.shard_store import recipe
from tasks.shard_store.shard_view import ShardView
from tasks.shard_store.utterance import FinalUtterance
from tasks.storage import versions

CLIP = pa.schema(
    [
        *(UTTERANCES.field(name) for name in split_input.COLUMNS),
        pa.field("seconds", pa.float64()),
        pa.field("pending", pa.bool_()),  # it is still to be heard
    ]
)


def may_choose_others(job: Job, before: Job | None, described: DatasetJson | None) -> bool:
    """Whether a run may package other clips of a recording that has not changed, for no outcome
    of its own. `before`: the job of the newest run; `described`: the newest version's dataset.json.
    """
    # Which speakers exceed the cap is known only once all clips are.
    if any(asked and asked.package.max_hours_per_speaker is not None for asked in (job, before)):
        return True
    then = described["settings"]["package"] if described else {}
    if described and then.get("disjoint") != (job.package.disjoint and [*job.package.disjoint]):
        return True
    if described and not clip_choice.same(job.package, then):
        return True
    if then.get("weights", {}) != job.package.weights:
        return True
    return bool(job.package.weights) and then.get("seed") != job.package.seed


class PassingClip(TypedDict):
    """A row of CLIP."""

    id: str
    dataset: str
    recording: str
    source_id: str | None
    speaker: str | None
    language: str | None
    sha256: str
    num_samples: int
    sample_rate: int
    seconds: float
    pending: bool


class Within(NamedTuple):
    """The clips that fit, a table like CLIP with their speakers, and the ids of the others."""

    kept: pa.Table
    over: list[str]


class PassingClips:
    """Collects the clips of all shards that pass the rules, or may pass once transcribed."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._clips: list[PassingClip] = []
        self._spoken: list[voices.VoiceRow] = []

    def shard(self, view: ShardView) -> None:
        """Add the voices of a shard's recordings, if they are linked over all recordings."""
        if recipe.across_recordings(self._job) is not None:
            self._spoken += voices.rows(view)

    def add(self, utterance: FinalUtterance) -> None:
        transcript = utterance.heard.transcript
        self._clips.append(
            {
                "id": utterance.cut.id,
                "dataset": utterance.cut.recording["dataset"],
                "recording": utterance.cut.recording["recording"],
                "source_id": utterance.cut.source_id,
                "speaker": utterance.cut.speaker,
                "language": transcript["language"] if transcript else None,
                "sha256": utterance.cut.audio,
                "num_samples": utterance.cut.end - utterance.cut.start,
                "sample_rate": utterance.cut.rate,
                "seconds": utterance.cut.seconds,
                "pending": utterance.outcome.outcome == "pending",
            }
        )

    def within(self) -> Within:
        newest = versions.newest(self._job.out)
        rows = speakers.in_rows(
            self._job,
            pa.Table.from_pylist(self._clips, schema=CLIP),
            [pa.Table.from_pylist(self._spoken, schema=voices.VOICES)],
            newest,
        )
        good = pa.array(clip_choice.chosen(self._job.package, rows))
        left_out = rows["id"].filter(pc.invert(good)).to_pylist()
        kept, over = selection.within_hours(self._job, rows.filter(good), newest)
        return Within(kept, [*left_out, *(clip["id"] for clip in over)])
