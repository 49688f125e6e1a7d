"""Finds shards that a run can skip because an earlier run left them complete.

A shard's key is a hash of the guards of its files. While it equals the key in the index, the shard
is complete for the settings of the last run; for settings with other limits, if its facts say that
nothing is missing. A run also checks shards that another release of uttermill completed. Commands
that only read go by recipes alone, so that they need not open each shard after an upgrade. If all
shards, the code and the inputs of `package` are those of the last run, the newest version is up to
date.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..base.errors import CorruptManifest
from ..base.json_types import Balance, JsonObject, Summary
from ..plugins import source_code
from ..recording import forgotten
from ..settings import package
from ..settings.job import Done, Job
from ..shard_store import decision_log, recipe, source_languages, whole_job
from ..shard_store.clip_choice import labels_kept
from ..shard_store.index import Index, Notes
from ..shard_store.recipe import digest
from ..shard_store.stored_shard import tells_datasets_apart
from ..stages import stage
from ..storage import versions
from . import corpus
from .corpus import held_out, limits
from .dataset import datacard
from .outcomes import batch_outcomes, shard_batches
from .outcomes.shard_batches import ShardBatch
from .published_columns import second_texts_kept


@dataclass(frozen=True, slots=True)
class Version:
    """A version as `package` reported it when it published it or found it unchanged."""

    number: int
    clips: int
    summary: Summary
    balance: Balance


class UpToDate:
    """The shards that are complete when a run begins and when it ends, and whether the version is
    up to date. Create it after the shard stage, which lists the files. `any_code`: accept shards
    that another release completed, if recipes and rules are the same. If batches had to be decided
    for that, they are in `decided`, by their folders, with outcomes in `scratch`."""

    def __init__(
        self,
        job: Job,
        shards: Sequence[str],
        index: Index,
        any_code: bool = False,
        scratch: Path | None = None,
    ) -> None:
        self._job, self._shards, self._index, self._scratch = job, sorted(shards), index, scratch
        self.decided: dict[Path, ShardBatch] = {}
        settings = whole_job.settings_of(job)
        self._settings = digest(
            _facts_recipe(job, settings),
            [settings[name] for name in (*stage.PER_SHARD, "enhance")],
            job.filter.measure_all,
            repr(limits.rules_by_stage(job)),
            [settings["package"][name] for name in ("only", "without")],
            decision_log.identity(decision_log.by_utterance(job)),
            tells_datasets_apart(job),
        )
        self._inputs = [
            whole_job.of_version(job, settings),
            job.package.model_dump(mode="json"),
            [source.model_dump(mode="json") for source in job.sources],
        ]
        self._code = _code()
        self._lists: list[str] = []
        self._keys = self._now(self._shards)
        self._ran: set[str] = set()
        self._items = index.noted_shards(self._keys, None if any_code else self._code)
        if self._items and index.settings != self._settings:
            self._items = {} if job.filter.measure_all else self._of_facts()
        self._looked = set(self._shards) - self._items.keys()

    def items(self, shard: str) -> Mapping[str, int] | None:
        """The items of each stage, for a complete shard; None: it must be checked."""
        return None if shard in self._ran else self._items.get(shard)

    def record(self, dones: Iterable[Done]) -> None:
        for done in dones:
            self._items.setdefault(done.shard, {})[done.stage] = done.computed + done.reused
            if done.ran:
                self._ran.add(done.shard)

    def keys(self) -> Mapping[str, str]:
        """`fact_keys`; call it after `freeze`."""
        return fact_keys(self._job, self._shards, self._index)

    def freeze(self) -> None:
        """Record the state of OUT, and of the splits' lists and test sets that `package` will read.
        Call it when all stages have run; the next run deals with later changes."""
        self._lists = [split_list.sha256 for split_list in package.read_list(self._job.package)]
        self._lists += held_out.states(self._job)
        if self._looked:  # a damaged file may have been removed in any of them
            self._index.look(self._looked | self._ran)
        if self._ran:  # the others keep the keys from the start of the run
            self._keys |= self._now(self._ran)

    def version(self) -> Version | None:
        """The newest version, if `package` would make the same one from the recorded state, else
        None; call it after `freeze`."""
        noted = None if self._ran else self._index.noted_version(self._version_key())
        if noted is None:
            return None
        return Version(noted["number"], noted["clips"], noted["summary"], noted["balance"])

    def save(self, version: Version, changed: Iterable[str]) -> None:
        """Record the version and the complete shards for the next run, except shards with
        recordings that changed during this run. Call it only while holding OUT's lock."""
        unsettled = set(changed)
        shards = {
            shard: {"key": self._keys[shard], "items": self._items[shard]}
            for shard in self._shards
            if shard not in unsettled and self._items.get(shard, {}).keys() == set(stage.PER_SHARD)
        }
        note: Notes = {"key": self._version_key(), **asdict(version)}
        self._index.note(shards, self._code, self._settings, None if unsettled else note)

    def _of_facts(self) -> dict[str, dict[str, int]]:
        """The items of those noted shards that lack nothing under these settings."""
        batches = shard_batches.of_shards(self._job, self.keys())
        lacking = {batch.home for batch in shard_batches.missing(self._job, batches)}
        stored = [batch for batch in batches if batch.home not in lacking]
        decided, items = batch_outcomes.decide(
            self._job, stored, self._scratch, strict=False, left_out=(CorruptManifest,)
        )
        self.decided = {batch.home: batch for batch in decided}
        return {shard: items[shard] for shard in self._items.keys() & items.keys()}

    def _now(self, shards: Iterable[str]) -> dict[str, str]:
        guards = self._index.guards()
        return {shard: _key("", guards.get(shard, ())) for shard in shards}

    def _version_key(self) -> str:
        newest = versions.newest(self._job.out)
        described = versions.described(newest) if newest else None
        return digest(
            [self._keys[shard] for shard in self._shards],
            self._code,
            self._settings,
            self._inputs,
            self._lists,
            sorted(forgotten.read(self._job.out).recordings),
            newest.name if newest else None,
            described.get(datacard.SEAL) if described else None,
        )


def fact_keys(job: Job, shards: Sequence[str], index: Index) -> dict[str, str]:
    """For each shard, a hash of everything that affects its facts. Of checkpoints, only names
    count, which contain hashes of the content, so that an OUT keeps its facts when it is moved."""
    guards, what = index.guards(), _facts_recipe(job, whole_job.settings_of(job)) + _code()
    return {
        shard: _key(what, ((n, g.partition("-")[0]) for n, g in guards.get(shard, ())))
        for shard in shards
    }


def _facts_recipe(job: Job, settings: JsonObject) -> str:
    return digest(
        whole_job.of_rows(job, settings),
        source_code.of_own_plugins(job),
        limits.schema_of(job).names,
        corpus.takes_part(job) and [corpus.compares_texts(job), *corpus.needed_measures(job)],
        corpus.compares_speakers(job),
        [*labels_kept(job), second_texts_kept(job)],
        recipe.across_recordings(job) is not None,
        source_languages.of_job(job),
    )


def _code() -> str:
    return digest(datacard.libraries(), source_code.of_package())


def _key(settings: str, files: Iterable[tuple[str, str]]) -> str:
    """Hash of the settings, and of the names and guards of files."""
    listed = "\n".join(f"{name} {guard}" for name, guard in files)
    return hashlib.sha256(f"{settings}\n{listed}".encode()).hexdigest()[:32]
