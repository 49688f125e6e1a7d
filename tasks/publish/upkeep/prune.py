"""`prune`: removes files that no kept version and no current settings need.

    versions     older than the newest `keep`; never the newest, never the one that `latest` names
    manifests    files without a needed row (`find_unneeded`)
    audio        blobs that no remaining manifest names
    runs         folders of old runs, if a number to keep is given
    staging      leftovers of dead runs: temporary files, a version that was never published

The newest version contains everything that later ones need of older ones: frozen bounds, the
layout, removed recordings. Results of a recording that has left its source are needed while a kept
version holds it. Versions share files by hard links, so bytes count as freed when the last link is
removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins, storage
from ...accounting import summary
from ...base.errors import ConfigError, RunError
from ...base.json_types import JsonObject
from ...base.schema import LEDGER_FILE, RecordingRow
from ...recording.limits import REFUSED
from ...settings import FilterSettings, Plugin, ResampleSettings, StageSettings, TranscribeSettings
from ...settings.job import Job
from ...shard_store import annotated, blobs, enhanced, manifest, recipe, text_values
from ...shard_store.cuts import TURNS
from ...shard_store.index import Index
from ...shard_store.manifest import Part
from ...shard_store.shard_view import ShardView
from ...shard_store.utterance import Utterance
from ...storage import lock, publication, versions
from ...storage.versions import STAGES, Proved
from ..unchanged import UpToDate

#: The settings in dataset.json on which recipes of checkpoints depend. An unused step is missing.
MODELS: dict[str, type[StageSettings] | type[Plugin]] = {
    "speakers": Plugin,
    "filter": FilterSettings,
    "enhance": Plugin,
    "resample": ResampleSettings,
    "transcribe": TranscribeSettings,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The files, and folders with their contents, to remove, by kind."""

    out: Path
    kept: tuple[str, ...]  # versions
    goes: dict[str, tuple[Path, ...]]
    uncut: int  # recordings that the current settings still have to cut; see `Unneeded`

    def as_dict(self) -> JsonObject:
        """Items, files and bytes of each kind; `freed`: bytes of files without another link."""
        store = storage.store_of(self.out)
        files = {
            k: [f for path in paths for f in store.files(path)] for k, paths in self.goes.items()
        }
        freed, links = dict.fromkeys(files, 0), Counter[object]()
        for kind, members in files.items():
            for file in members:  # each counts once, with its last link
                links[file.inode] += 1
                freed[kind] += file.size if links[file.inode] == file.links else 0
        kinds = {
            kind: {
                "items": len(paths),
                "files": len(files[kind]),
                "bytes": sum(file.size for file in files[kind]),
                "freed": freed[kind],
            }
            for kind, paths in self.goes.items()
        }
        return {
            "out": str(self.out),
            "kept": list(self.kept),
            "kinds": kinds,
            "versions": [path.name for path in self.goes["versions"]],
            "runs": [path.name for path in self.goes["runs"]],
            "uncut": self.uncut,
            "freed": sum(freed.values()),
        }


def kept_versions(out: Path, keep: int) -> list[Path]:
    """The versions that stay: the newest `keep`, and the one that `latest` names."""
    if keep < 1:
        raise ConfigError("the newest version always stays; keep at least 1")
    older = versions.beyond(out, keep)
    return [path for path in versions.all_of(out) if path not in older]


def plan(
    out: Path, kept: Sequence[Path], settings: Sequence[KeptSettings], runs: Sequence[Path] = ()
) -> Plan:
    """The files that may be removed if these versions and the results of these settings stay.

    `runs`: folders of runs to remove.
    """
    shards = manifest.shards(out)
    whole = _whole(out, shards, settings)
    incomplete = [shard for shard in shards if shard not in whole]
    live = _live(kept) if kept and incomplete else None
    of_shards = [find_unneeded(out, shard, settings, live) for shard in incomplete]
    goes = {
        "versions": tuple(path for path in versions.all_of(out) if path not in kept),
        "manifests": tuple(path for unneeded in of_shards for path in unneeded.manifests),
        "audio": tuple(path for unneeded in of_shards for path in unneeded.audio),
        "runs": tuple(runs),
        "staging": tuple(_staging(out)),
    }
    names = tuple(path.name for path in kept)
    return Plan(out, names, goes, sum(unneeded.uncut for unneeded in of_shards))


def _whole(out: Path, shards: Sequence[str], settings: Sequence[KeptSettings]) -> set[str]:
    """Shards in which every file is needed, found without reading them: the last run left them
    complete under settings that stay, and each stage has a single file."""
    index = Index(out)
    index.warn_of_foreign()
    counts = Counter(name.rpartition("/")[0] for name in index.files)
    current = [kept for kept in settings if kept.current] or settings
    states = [UpToDate(kept.job, shards, index, any_code=True) for kept in current]
    return {
        shard
        for shard in (shards if states else ())
        if all(counts[f"manifests/{stage}/{shard}"] == 1 for stage in STAGES)
        and counts[f"audio/{shard}"] <= 1
        and all(all((state.items(shard) or {"": 0}).values()) for state in states)
    }


def settings_of(out: Path, kept: Sequence[Path]) -> list[KeptSettings]:
    """The settings of published versions, from their `dataset.json`."""
    settings = []
    for version in kept:
        described = versions.described(version)
        stages: JsonObject = {
            name: plugins.checked(model, described["settings"][name], f"{version.name}: {name}")
            for name, model in MODELS.items()
            if name in described["settings"]
        }
        job = Job(out, **stages)
        settings.append(KeptSettings(job, described["recipes"]["weights"], current=False))
    return settings


def carry_out(plan: Plan) -> None:
    """Remove the planned files. Requires OUT's lock. After a kill at any point, no needed file is
    missing, and the next prune removes the rest."""
    lock.check(plan.out)
    _remove(plan.out, plan.goes["staging"])
    publication.publisher(plan.out).withdraw((*plan.goes["versions"], *plan.goes["runs"]))
    # Manifests before the blobs that they name, so that no manifest is left without its audio.
    checkpoints = (*plan.goes["manifests"], *plan.goes["audio"])
    if checkpoints:
        Index(plan.out).forget(p.relative_to(plan.out).as_posix() for p in checkpoints)
        _remove(plan.out, checkpoints)


def _live(kept: Iterable[Path]) -> set[str]:
    """Names of the recordings in these versions. Raises RunError if a ledger is damaged."""
    recordings: set[str] = set()
    for version in kept:
        proved = Proved(version)
        try:
            if not proved.holds(LEDGER_FILE):  # a damaged file may still be readable
                raise OSError(f"{LEDGER_FILE} is not the file that was published")
            for names in summary.live_recordings(version):
                recordings.update(names.to_pylist())
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                f"cannot tell what {version.name} needs, because its ledger is damaged ({error}); "
                "nothing was removed: look at `uttermill verify`, and remove the version by hand"
            ) from error
    return recordings


def _staging(out: Path) -> Iterator[Path]:
    """Leftovers of dead runs and dead prunes."""
    store, listing = storage.store_of(out), out / "manifests" / ".listing"
    publisher = publication.publisher(out)
    folders = [
        path for home in (versions.home(out), out / "runs") for path in publisher.leftovers(home)
    ]
    folders += [listing] if store.is_folder(listing) else []
    yield from folders
    for root in ("manifests", "audio", "datasets", "runs"):
        for temp in sorted(store.temporaries(out / root)):
            if not set(folders) & set(temp.parents):
                yield temp


def _remove(out: Path, paths: Iterable[Path]) -> None:
    store = storage.store_of(out)
    for path in paths:
        store.remove_tree(path)
        store.remove(path)


# Finds the checkpoints of a shard that some settings still need, whatever their limits are.
#
# Measures, PCM and transcripts are found by recipe, as in `shard_view.py`. A part is needed if any
# of its rows is, and a blob if a part that stays names it.


@dataclass(frozen=True, slots=True)
class KeptSettings:
    job: Job
    weights: str  # hash of the recogniser's weights
    current: bool = True  # for later runs: while they have recordings to cut, PCM and texts stay


@dataclass(slots=True)
class Unneeded:
    """Files of a shard that may be removed. `uncut`: number of recordings that a run still has to
    cut; while there are any, PCM and transcripts stay."""

    manifests: list[Path] = field(default_factory=list)
    audio: list[Path] = field(default_factory=list)
    uncut: int = 0


class _View(ShardView):
    """The view of a shard, including recordings of kept versions that have left their source.

    `live`: names of the recordings in kept versions; None: there is no version, include all.
    """

    def __init__(self, settings: KeptSettings, shard: str, live: Collection[str] | None) -> None:
        super().__init__(settings.job, shard)
        self.live, self.weights = live, settings.weights

    @cached_property
    def recordings(self) -> list[RecordingRow]:
        rows, live = manifest.listed(self.job.out, self.shard).to_pylist(), self.live
        return [r for r in rows if r["present"] or live is None or r["recording"] in live]

    @cached_property
    def wanted_cuts(self) -> set[str]:
        return {
            self.cut_recipes[row["recording"]] for row in self.processed if not row["error_code"]
        }

    @cached_property
    def wanted_turns(self) -> set[str | None]:
        return {self.turned(row)[0] for row in self.processed if not row["error_code"]} - {None}

    @cached_property
    def uncut(self) -> int:
        cuts = (self.cut_of(row) for row in self.processed if not row["error_code"])
        return sum(cut is None or not cut.known for cut in cuts)

    @cached_property
    def cut(self) -> list[Utterance]:
        """All utterances, rejected ones included, as before transcription."""
        return [*self.filtered()]

    @cached_property
    def wanted_audio(self) -> set[str]:
        audio = {u.audio for u in self.cut}
        audio |= {side for u in self.cut for side in self.sides(u)}  # whatever the formats are
        return audio | {one.span[2] for u in self.cut for one in self.companions(u)}

    @cached_property
    def wanted_texts(self) -> set[str]:
        """Recipes of all transcripts that the settings may need, whichever rules apply."""
        texts = {self.transcript_recipe(u) for u in self.cut}
        for utterance in self.transcribed():
            vote = utterance.vote
            for voted in (
                vote and vote.language,
                *self._spoken_in.get(utterance.recording["dataset"], ())[:1],
            ):
                texts.add(self.transcript_recipe(utterance, voted=voted))
            if self.job.transcribe.backends:
                texts.update(self.further_recipes(utterance))
            texts.update(request.recipe for request in self.questions(utterance))
            texts.update(turn.recipe for turn in self.channel_turns(utterance))
            rewritings = text_values.rewriting(self.job, utterance)
            alignments = text_values.alignment(self.job, self.weights, utterance)
            texts.update(request.recipe for request in rewritings)
            texts.update(request.recipe for request in alignments)
        if self.job.transcribe.backends:
            texts |= {text for u in self.cut for text in self.further_recipes(u)}
        if recipe.enhancing(self.job) and enhanced.heard(self.job):
            for u in self.cut:  # limits choose which of the two is transcribed
                texts.add(self.transcript_recipe(u, u.enhanced))
                texts.update(self.further_recipes(u, u.enhanced))
        return texts


def find_unneeded(
    out: Path, shard: str, kept: Sequence[KeptSettings], live: Collection[str] | None
) -> Unneeded:
    """The files of a shard that none of the settings needs. The next run deals with damaged files.
    If the shard's own manifest is lost, its recordings are unknown, and all files stay."""
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
        used = (row for row in part.table.to_pylist() if row["audio"] in audio)
        if any(row["error_code"] or blobs.present(row, sizes) for row in used):
            needed.add(part.path)
    files.manifests += _beside(parts, needed)
    named = {n for part in parts if part.path in needed for n in part.table["blob"].to_pylist()}
    texts = {text for view in views for text in view.wanted_texts}
    parts = manifest.read(out, "transcribe", shard)
    needed = {p.path for p in parts if not texts.isdisjoint(p.table["transcript"].to_pylist())}
    files.manifests += _beside(parts, needed)
    files.audio = [path for path in blobs.files(out, shard) if path.name not in named]
    return files


def _beside(parts: Sequence[Part], needed: Collection[Path]) -> list[Path]:
    """Files of `parts` that are not in `needed`."""
    return [path for path in dict.fromkeys(part.path for part in parts) if path not in needed]


def _cuts(view: _View, parts: Sequence[Part]) -> list[Path]:
    """Files of those filter-stage parts from which the view takes cuts, measures or failures."""
    needed, covered = [], set[str]()
    for part in parts:
        usable, stands = view.usable(part)
        measured = set[str]()  # columns and annotations for which the part has values
        for name in ("measures", "prints"):
            for chunk in part.table[name].chunks if name in part.table.column_names else ():
                measured.update(pc.unique(chunk.keys).to_pylist())
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
        if rows and (fresh or any(r["error_code"] for r in rows) or measured & _of(usable)):
            needed.append(part.path)
    return needed


def _of(filters: Collection[str]) -> set[str]:
    """The filters' columns, and the keys of their annotations and fingerprints."""
    names = {use: annotated.stored_by(use) for use in filters}
    return {n for use, of in names.items() for n in (use, *of.columns, *of.kept, *of.labels)}
