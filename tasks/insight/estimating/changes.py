"""The settings in which two jobs differ, and the work that these changes cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ... import plugins
from ...base.json_types import DatasetJson, JsonValue
from ...settings import THRESHOLD, roles
from ...settings.job import Job
from ...shard_store import decision_log, whole_job


class Change(NamedTuple):
    """A changed setting, by its dotted name as in `--set`, and its values; None: absent."""

    setting: str
    before: JsonValue
    after: JsonValue


PARTS = ("sources", "speakers", "filter", "enhance", "resample", "transcribe", "package")


def between(before: Job, after: Job) -> list[Change]:
    """Differences in the settings that can change a dataset, with defaults filled in."""
    then, now = whole_job.settings_of(before), whole_job.settings_of(after)
    return [change for part in PARTS for change in _between(part, then[part], now[part])]


def of_models(described: DatasetJson, job: Job) -> list[Change]:
    """Changes since the newest version that are not in the settings: the recogniser's weights, the
    model or code of a plug-in. `described`: the version's dataset.json."""
    then, now = described["recipes"], whole_job.recipes_of(job)
    before, after = described["settings"], whole_job.settings_of(job)
    changes = []
    heard = [settings["transcribe"] for settings in (before, after)]
    if all(heard[0].get(name) == heard[1].get(name) for name in ("backend", "backends")):
        if then["weights"] != now["weights"]:
            hashes = (f"weights {names[:8]}" for names in (then["weights"], now["weights"]))
            changes.append(Change("transcribe.backend", *hashes))
        elif then["backend"] != now["backend"]:
            changes.append(Change("transcribe.backend", *_CODE))
    for part, name in (("filter", "segmenter"), ("resample", "resampler"), ("resample", "levels")):
        if before[part].get(name) == after[part][name] and then.get(name) != now.get(name):
            changes.append(Change(f"{part}.{name}", *_CODE))
    for step in ("speakers", "enhance"):
        if before.get(step) == after.get(step) and then.get(step) != now.get(step):
            changes.append(Change(step, *_CODE))
    measured = {entry["use"]: entry for entry in before["filter"]["filters"]}
    for entry in after["filter"]["filters"]:
        use = entry["use"]
        if measured.get(use) == entry and then["filters"].get(use) != now["filters"][use]:
            changes.append(Change(f"filter.filters.{use}", *_CODE))
    return changes


def of_people(described: DatasetJson, job: Job) -> list[Change]:
    """Changes of decisions by people since the newest version, as one entry; `described`: the
    version's dataset.json."""
    then, now = described.get("reviews"), decision_log.described(job)
    if (then and then["sha256"]) == (now and now["sha256"]):
        return []
    kinds = (reviews.items() if reviews else () for reviews in (then, now))
    before, after = (
        ", ".join(f"{n} {kind}" for kind, n in counts if kind != "sha256" and n) or "none"
        for counts in kinds
    )
    return [Change(REVIEWS, before, after if after != before else f"{after}, others than before")]


#: Stands for decisions by people where causes of work are named by settings.
REVIEWS = "reviews"
#: First parts of names of transcription settings that change requests to recognisers or language
#: models.
HEARD = (
    *("also_when", "backend", "hear", "language_by"),
    *("llm_text", "reference_words", "turns_by", "when"),
)
_CODE = ("its former model or code", "that of now")


def measuring(changes: Iterable[Change], job: Job) -> list[Change]:
    """Changes for which the filter stage measures or cuts again; limits never cause that. `job`:
    the current settings."""
    # A plug-in's name may contain dots.
    shelf_by_prefix = {f"filter.filters.{p.use}.": ("filters", p.use) for p in job.filter.filters}
    shelf_by_prefix["speakers."] = "diarizers", job.speakers.use
    cutting = (c for c in changes if c.setting.startswith(("filter.", "speakers")))
    return [change for change in cutting if not _is_threshold(change, shelf_by_prefix)]


def _is_threshold(change: Change, shelf_by_prefix: Mapping[str, tuple[str, str]]) -> bool:
    """Whether the changed setting is only a limit on measures. `shelf_by_prefix`: (kind, name) of
    each plug-in, by the prefix of its settings' names."""
    head = max(filter(change.setting.startswith, shelf_by_prefix), key=len, default=None)
    if head is None:
        gone = change.after is None  # a filter that is no longer used
        return gone or change.setting in ("filter.damaged", "filter.duplicate_files")
    key = change.setting.removeprefix(head).split(".")[0]
    fields = plugins.load(*shelf_by_prefix[head]).Settings
    return key in fields.model_fields and roles(fields)[key] == THRESHOLD["role"]


def _between(name: str, before: JsonValue, after: JsonValue) -> Iterator[Change]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        if before.get("use") != after.get("use"):
            yield Change(f"{name}.use", before.get("use"), after.get("use"))
            return
        for key in sorted(before.keys() | after.keys()):
            yield from _between(f"{name}.{key}", before.get(key), after.get(key))
    elif (then := _named(before)) is not None and (now := _named(after)) is not None:
        for key in sorted(then.keys() | now.keys()):
            if key in then and key in now:
                yield from _between(f"{name}.{key}", then[key], now[key])
            else:
                was, is_now = ("in use" if key in side else None for side in (then, now))
                yield Change(f"{name}.{key}", was, is_now)
        if list(then) != list(now) and then.keys() == now.keys():
            yield Change(name, list(then), list(now))
    else:
        yield Change(name, before, after)


def _named(value: JsonValue) -> dict[str, JsonValue] | None:
    """A list of plug-ins or sources as a dict by name; None for any other value."""
    if not isinstance(value, list):
        return None
    by_name = {
        (e.get("use") or e.get("name") or "") if isinstance(e, dict) else "": e for e in value
    }
    return by_name if len(by_name) == len(value) and "" not in by_name else None


def found_since(job: Job, before: Job | None, described: DatasetJson | None) -> list[Change]:
    """Changes of settings since the newest run (`before`), and changes of models, code and
    decisions by people since the newest version (`described`)."""
    changes = between(before, job) if before else []
    if not described:
        return changes
    named = {change.setting for change in changes}
    models = [change for change in of_models(described, job) if change.setting not in named]
    return [*changes, *models, *of_people(described, job)]


@dataclass(frozen=True, slots=True)
class Causes:
    """Names of the changed settings, by the work that they cause."""

    all: list[Change]
    measures: list[str]  # cuts and measures are computed again
    limits: list[str]  # other utterances exist, or pass the filters
    pcm: list[str]
    enhanced: list[str]
    texts: list[str]
    people: list[str]  # decisions by people
    version: list[str]  # only the published version changes

    @property
    def recoded(self) -> bool:
        """Whether the model or code that makes PCM has changed."""
        return any(c.setting in self.pcm and (c.before, c.after) == _CODE for c in self.all)

    @property
    def published(self) -> list[str]:
        """Names of changes that may change published clips, even if nothing must be computed."""
        before = [*self.limits, *self.pcm, *self.enhanced, *self.texts]
        return [*before, *self.people, *self.version]

    @classmethod
    def from_changes(cls, changes: list[Change], job: Job) -> Causes:
        """Sort the changes by their consequences; `job`: the current settings."""

        def named(*heads: str) -> list[str]:
            return [c.setting for c in changes if c.setting.startswith(heads)]

        heard = named(*(f"transcribe.{name}" for name in HEARD))
        spoken = [name for name in named("sources.") if name.endswith(".language")]
        return cls(
            all=changes,
            measures=[c.setting for c in measuring(changes, job)],
            limits=named("filter.", "speakers"),
            pcm=named("resample."),
            enhanced=named("enhance"),
            texts=heard + spoken,
            people=named(REVIEWS),
            version=[name for name in named("transcribe.", "package.") if name not in heard],
        )
