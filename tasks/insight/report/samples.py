"""The facts about each span that a report shows: text, measures, the place of its audio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tasks.base.schema import EnhancedRow, LedgerRow
from tasks.insight.report import clip_choice
from tasks.insight.report.ledger_facts import Ledger
from tasks.insight.report.outcome_columns import Columns
from tasks.insight.report.uncertain_clips import Why
from tasks.recording import Locator
from tasks.recording.tracks import locator_of
from tasks.settings.job import Job
from tasks.shard_store import hidden
from tasks.shard_store.index import Index
from tasks.shard_store.text_values import final_text
from tasks.shard_store.utterance import FinalUtterance
from tasks.stages.listing import fingerprints, known_recordings
from tasks.stages.stage import view_of


@dataclass(slots=True)
class Sample:
    """One span of the ledger, with everything that a report shows of it."""

    row: LedgerRow
    whys: list[Why] = field(default_factory=list)
    shard: str | None = None
    locator: Locator | None = None
    text: str | None = None
    text_source: str | None = None
    heard: str | None = None
    reference: str | None = None
    measures: dict[str, float] = field(default_factory=dict)
    pcm: EnhancedRow | None = None
    muted: str | None = None  # where words are silenced

    @property
    def kept(self) -> bool:
        return bool(self.row["outcome"] == "packaged")

    @property
    def seconds(self) -> float:
        return max(float(self.row["end"] - self.row["start"]), 0.0)

    @property
    def name(self) -> str:
        """Its group: `packaged`, or `stage.reason`."""
        return "packaged" if self.kept else f"{self.row['stage']}.{self.row['reason']}"


def choose(ledger: Ledger, seed: int, columns: Columns | None = None) -> list[Sample]:
    """The samples, in the order of `clip_choice`."""
    picks = clip_choice.choose(ledger, columns, seed)
    rows = dict(zip(sorted(picks), ledger.rows(list(picks)), strict=True))
    return [Sample(rows[number], whys) for number, whys in picks.items()]


def look_up(job: Job, samples: Sequence[Sample]) -> None:
    """Fill in the samples from the manifests; one whose recording is not found stays as it is."""
    wanted: dict[str, list[Sample]] = {}
    for sample in samples:
        wanted.setdefault(sample.row["recording"], []).append(sample)
    for shard, names in _shards_of(job, set(wanted)).items():
        view = view_of(job, shard)
        view.recordings = [r for r in view.recordings if r["recording"] in names]
        shard_samples = [s for r in view.recordings for s in wanted[r["recording"]]]
        locators = {r["recording"]: locator_of(r, job.filter) for r in view.recordings}
        utterances = (
            {u.cut.id: u for u in view.transcribed()}
            if any(s.row["utterance"] for s in shard_samples)
            else {}
        )
        for sample in shard_samples:
            sample.shard, sample.locator = shard, locators[sample.row["recording"]]
            utterance = utterances.get(sample.row["utterance"] or "")
            if utterance is not None:
                _tell(job, sample, utterance)


def _tell(job: Job, sample: Sample, utterance: FinalUtterance) -> None:
    sample.reference = utterance.cut.reference
    heard = utterance.heard.transcript
    if heard is not None and not heard["error_code"]:
        sample.text, sample.text_source = final_text(job, utterance.heard)
        sample.heard = heard["text"]
    elif utterance.cut.reference:
        sample.text, sample.text_source = utterance.cut.reference, "reference"
    sample.muted = utterance.muted
    language = heard["language"] if heard is not None else utterance.cut.language
    most = hidden.most_places(job, utterance.heard, sample.text)
    for name in ("text", "heard", "reference"):
        setattr(sample, name, hidden.shown(job, getattr(sample, name), language, most))
    values: dict[str, object] = {**utterance.heard.measures, **utterance.texts}
    sample.measures = {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if utterance.heard.pcm is not None and not utterance.heard.pcm["error_code"]:
        sample.pcm = utterance.heard.pcm


def _shards_of(job: Job, recordings: set[str]) -> dict[str, set[str]]:
    """Which shard holds which of these recordings."""
    known, names = known_recordings.of(job.out, Index(job.out)), sorted(recordings)
    names_by_shard: dict[str, set[str]] = {}
    for name, row in zip(names, known.find(fingerprints.keys(names)).tolist(), strict=True):
        if row >= 0:
            names_by_shard.setdefault(known.shards[known.columns.shard[row]], set()).add(name)
    return names_by_shard
