"""One shard without limits: what every utterance would be if no rule and no person rejected it.

Limits are applied to these facts later, by `corpus.limits`. Only two values of a clip depend on
which other clips of its recording pass the limits of filters: the language by vote, and the seconds
of speech in a long recording. Both are taken among those that pass now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...base.schema import AnyRow, EnhancedRow, RecordingRow
from ...plugins.rules import Judge
from ...settings.job import Job
from ...shard_store import enhanced, hypotheses, manifest
from ...shard_store.cuts import Cut
from ...shard_store.language_vote import LEAST_CLIPS
from ...shard_store.shard_view import LONG_S, ShardView
from ...shard_store.utterance import CutUtterance, HeardUtterance, Outcome

NO_RULES = Judge(())


class FactView(ShardView):
    """`filtered`, `resampled` and `transcribed` reject no utterance by a rule."""

    def __init__(
        self,
        job: Job,
        shard: str,
        weights: str = "",
        damaged: manifest.OnDamage = manifest.leave,
        listed: Sequence[RecordingRow] | None = None,
        again: bool = False,
    ) -> None:
        # Costly measures count as missing whether or not a cheap one rejects the utterance now.
        measuring = job.filter.model_copy(update={"measure_all": True})
        super().__init__(replace(job, filter=measuring), shard, weights, damaged, listed, again)
        self._rejected = set[tuple[str, int, int, int | None]]()  # by limits on measures
        #: Whether a clip's values depend on which clips of its recording pass the filters.
        self.by_passing = False

    def _filter_outcome(self, utterance: CutUtterance, cut: Cut, judge: Judge) -> Outcome:
        if not utterance.spared and judge(utterance.measures):
            self._rejected.add(_key(utterance))
        return super()._filter_outcome(utterance, cut, NO_RULES)

    def _beside(self, utterance: HeardUtterance, row: EnhancedRow | None) -> HeardUtterance:
        heard = enhanced.beside(self.job, utterance, row)
        if heard.outcome.outcome == "dropped":
            self._rejected.add(_key(heard.cut))
        return enhanced.beside(self.job, utterance, row, limited=False)

    def _heard(
        self, waiting: Sequence[HeardUtterance]
    ) -> tuple[list[HeardUtterance], float | None]:
        passing = [u for u in waiting if _key(u.cut) not in self._rejected]
        first, spoken = super()._heard(passing)
        if len(passing) < len(waiting):
            others = [u for u in waiting if _key(u.cut) in self._rejected]
            alone = iter(hypotheses.first(others, self._transcript, by_vote=False))
            voted = iter(first)
            first = [next(alone if _key(u.cut) in self._rejected else voted) for u in waiting]
        self.by_passing = self.by_passing or self._depends(first)
        return first, spoken

    def _depends(self, heard: Sequence[HeardUtterance]) -> bool:
        """Whether other limits of filters may change values of these clips of one recording."""
        if len(heard) < 2:
            return False
        cut = self.cut_of(heard[0].cut.recording)
        if cut is not None and cut.decoded >= LONG_S * cut.rate:
            return True
        votes = (u.transcript and u.transcript.get("detected_language") for u in heard)
        return self._by_vote and len(heard) >= LEAST_CLIPS and any(votes)

    def _outcome_by_text(self, utterance: CutUtterance, texts: AnyRow, judge: Judge) -> Outcome:
        return Outcome("packaged", "package", "packaged", detail=utterance.decided)


def _key(utterance: CutUtterance) -> tuple[str, int, int, int | None]:
    name = utterance.recording["recording"]
    return name, utterance.start, utterance.end, utterance.given
