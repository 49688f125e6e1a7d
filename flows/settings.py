"""PrepareSettings: all settings of a run, the same in YAML files, flow parameters, deployments and
the UI's form."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from ..tasks import plugins, storage
from ..tasks.base.errors import ConfigError
from ..tasks.base.json_types import JsonObject, JsonValue
from ..tasks.plugins import explaining, trusted
from ..tasks.recording import yaml_text
from ..tasks.settings import (
    AnySource,
    Diarizer,
    Enhancer,
    FilterSettings,
    PackageSettings,
    Plugin,
    ResampleSettings,
    ShardSettings,
    Source,
    Split,
    StageSettings,
    TranscribeSettings,
)
from ..tasks.settings.base import WRITE
from ..tasks.settings.job import Job
from .cluster.settings import ClusterSettings

#: Where a local run records itself in Prefect.
History = Literal["auto", "own", "none", "server"]
AnyOf = TypeVar("AnyOf", bound=Source)


class PrepareSettings(StageSettings):
    sources: tuple[AnySource, ...] = Field(min_length=1, description="Where recordings come from.")
    out: str = Field(
        description="Folder, or URL (s3://bucket/folder), for manifests, audio and datasets.",
        json_schema_extra=WRITE,
    )
    speakers: Diarizer = Field(
        Plugin(use="none"), description="Who speaks when in each recording, before it is cut."
    )
    shard: ShardSettings = Field(
        ShardSettings(),
        description="How recordings are grouped into the units of work and of retry.",
    )
    filter: FilterSettings = Field(
        FilterSettings(),
        description="How recordings are cut, what is measured, and which limits hold.",
    )
    enhance: Enhancer = Field(
        Plugin(use="none"),
        description="What takes noise or music out of a clip, before it is resampled.",
    )
    resample: ResampleSettings = Field(
        ResampleSettings(), description="Target rate, channels and levels."
    )
    transcribe: TranscribeSettings = Field(
        TranscribeSettings(), description="The recogniser, and which texts are good."
    )
    package: PackageSettings = Field(
        PackageSettings(),
        description="What is published, in which formats and splits, and when it is refused.",
    )
    cluster: ClusterSettings = Field(
        ClusterSettings(), description="The workers: where, how many, within which limits."
    )
    history: History = Field(
        "auto",
        description="Where a local run that computes something records itself: on a Prefect server "
        "of its own (own), on the configured one (server), nowhere (none); auto: on the configured "
        "one, else on its own.",
    )

    @model_validator(mode="after")
    def _named(self) -> Self:
        """An empty path would be the current folder. No `min_length`: pydantic counts the letters
        of UTF-8 only, and other paths have an error of their own."""
        if not self.out:
            raise ValueError("out must not be empty")
        if not all(source.path for source in self.sources):
            raise ValueError("the path of a source must not be empty")
        return self

    def rooted(self) -> PrepareSettings:
        """A copy with absolute paths, as a run's settings are read again from elsewhere."""
        job = self.job()
        paths = {"sources": job.sources, "out": str(job.out), "package": job.package}
        return self.model_copy(update={**paths, "cluster": self.cluster.rooted()})

    def job(self) -> Job:
        return Job(
            out=storage.place(self.out),
            sources=tuple(map(_rooted, self.sources)),
            speakers=self.speakers,
            shard=self.shard,
            filter=_with_needed(self.filter, self.package),
            enhance=self.enhance,
            resample=self.resample,
            transcribe=self.transcribe,
            package=_with_rooted_lists(self.package),
            item_timeout=self.cluster.item_timeout,
            cache_bytes=int(self.cluster.cache_gb * 1e9),
        )


class SampleSettings(StageSettings):
    """What an estimate takes beside the settings of the run that it forecasts."""

    fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        0.005, description="Share of the recordings to sample."
    )
    least: Annotated[int, Field(ge=1)] = Field(
        50, description="Minimum number of recordings to sample."
    )


def _rooted(source: AnyOf) -> AnyOf:
    """The source with absolute paths, also of `root` if its kind has one."""
    paths = {"path": source.path, "root": source.options.get("root")}
    local = {k: v for k, v in paths.items() if isinstance(v, str) and v and "://" not in v}
    return source.model_copy(update={k: os.path.abspath(v) for k, v in local.items()})


def _with_needed(chosen: FilterSettings, package: PackageSettings) -> FilterSettings:
    """The filters, and those that settings of `package` need: fingerprints of clips, if their sound
    is compared with test sets; voices, if clips are chosen by an example, or voices are compared
    over clips; and tracks, if a format keeps a speaker's own channel."""
    used = {plugin.use for plugin in chosen.filters}
    compared = {
        kind for one in package.exclude for kind in ("audio", "voice") if one.compares(kind)
    }
    needed: list[JsonObject] = []
    if "audio" in compared and "duplicate" not in used:
        needed.append({"use": "duplicate", "drop": False})
    options: JsonObject = {}
    for choice, examples, limit in (
        (package.only, "like", "min_like"),
        (package.without, "unlike", "max_unlike"),
    ):
        if choice is not None and choice.voice:
            options[examples] = [*map(os.path.abspath, choice.voice)]
            options[limit] = choice.voice_cosine
    if options or ((package.links_voices or "voice" in compared) and "voice" not in used):
        needed.append({"use": "voice", **options})
    for plugin in package.formats if "tracks" not in used else ():
        if plugin.options.get("tracks", "own" if plugin.use == "duplex" else None) == "own":
            needed.append({"use": "tracks"})
            break
    added = map(Plugin.model_validate, needed)
    return chosen.model_copy(update={"filters": (*chosen.filters, *added)}) if needed else chosen


def _with_rooted_lists(package: PackageSettings) -> PackageSettings:
    splits = dict(package.splits)
    for name, share in splits.items():
        if isinstance(share, Split) and share.list:
            splits[name] = share.model_copy(update={"list": os.path.abspath(share.list)})
    excluded = tuple(map(_rooted, package.exclude))
    return package.model_copy(update={"splits": splits, "exclude": excluded})


def read(
    path: str | None,
    sources: Sequence[str],
    out: str | None,
    sets: Sequence[str],
    stated: Mapping[str, str | None] = MappingProxyType({}),
) -> PrepareSettings:
    """PrepareSettings from a YAML file or from `--source`/`--out`, with `--set` applied. `stated`:
    settings of each `--source`, such as its language."""
    data: JsonObject = {}
    if path is not None:
        data = _in_file(path, bare=not sets)  # these may give all
    if sources:
        from ..tasks.sources import table  # here: settings in a file name their kinds

        # A folder given on the command line may hold broken files: take the good ones, unless the
        # command line also says how many may be broken.
        settings = {assignment.partition("=")[0].strip() for assignment in sets}
        spared = "package.max_failed_fraction" not in settings
        kinds = [
            table.suggested(os.path.expanduser(path)) or {"kind": "folder"} for path in sources
        ]
        given = {name: value for name, value in stated.items() if value is not None}
        data["sources"] = [
            {**kind, "path": path, "expect_broken": spared, **given}
            for kind, path in zip(kinds, sources, strict=True)
        ]
    if out is not None:
        data["out"] = out
    assign(data, sets)
    return of_mapping(data)


def _in_file(path: str, bare: bool) -> JsonObject:
    """The mapping in a settings file; ConfigError for what is none, and for one that, if it stands
    `bare`, is empty or another program's."""
    file_of = f"settings file {path}"
    instead = f"give --source {path} and --out DIR"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(yaml_text.MOST_BYTES + 1)
    except IsADirectoryError:
        raise ConfigError(
            f"{path} is a folder, not a settings file; for the recordings in it, {instead}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{file_of} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{file_of} is not text in UTF-8; for a recording, {instead}") from None
    data = yaml_text.load(text, file_of) or {}
    if bare and not data:
        raise ConfigError(f"{file_of} is empty; `uttermill init` writes one")
    if not isinstance(data, dict):
        raise ConfigError(f"{file_of} must be a mapping with sources and out")
    if bare and not data.keys() & PrepareSettings.model_fields.keys():
        keys = ", ".join(map(str, [*data][:5]))
        raise ConfigError(
            f"{path} is no settings file: none of its keys ({keys}) is a setting; "
            "`uttermill init` writes one"
        )
    return data


def of_mapping(data: JsonObject) -> PrepareSettings:
    """PrepareSettings from the keys of a settings file, whose plug-ins of one's own are trusted;
    ConfigError names all that is wrong."""
    yaml_text.refuse_what_json_cannot_hold(data, "settings")
    trusted.trust(data)
    if complaints := plugins.complaints(data, PrepareSettings):
        raise ConfigError(explaining.joined(complaints))
    return parse(_at_home(data)).rooted()


def parse(data: JsonObject) -> PrepareSettings:
    yaml_text.refuse_what_json_cannot_hold(data, "settings")
    try:
        return PrepareSettings.model_validate(data)
    except ValidationError as error:
        raise ConfigError(explaining.explain(error, PrepareSettings, "", data)) from None


def _at_home(value: Any) -> Any:
    """Settings with `~` and `~/folder` expanded to the home folder, as in a shell."""
    if isinstance(value, dict):
        return {key: _at_home(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_at_home(inner) for inner in value]
    if isinstance(value, str) and (value == "~" or value.startswith("~/")):
        return os.path.expanduser(value)
    return value


def assign(data: JsonObject, sets: Iterable[str]) -> None:
    """Apply each `a.b=value` (YAML) or `a.b+=value` to raw settings: setting `use` replaces the
    whole mapping of a plug-in, and += adds an entry, or those of a list, to a list.

    A plug-in or a list missing in `data` is taken from the defaults, so that one of its settings
    can be changed alone. ConfigError for what cannot be assigned.
    """
    for assignment in sets:
        dotted, equals, text = assignment.partition("=")
        adds = dotted.rstrip().endswith("+")
        name = dotted.strip().removesuffix("+").rstrip()
        keys = name.split(".")
        if not equals or not all(keys):
            raise ConfigError(
                f"--set {assignment!r}: write it as key.key=value, or key.list+=value to add to a "
                "list"
            )
        value = yaml_text.load(text, f"--set {assignment!r}: the value")
        trusted.trust(value)  # a command line is its user's
        if keys[-1] == "use" and len(keys) > 1 and not adds:
            keys, value = keys[:-1], {"use": value}
        place: Any = data  # a mapping, or a list of plug-ins
        default: JsonValue = {
            name: field.default.model_dump(mode="json")
            for name, field in PrepareSettings.model_fields.items()
            if isinstance(field.default, StageSettings | Plugin)
        }
        while True:
            last, keys = _first_step(place, keys, assignment)
            usual = default.get(last) if isinstance(default, dict) else None
            if not keys:
                break
            place, default = _step_into(place, last, assignment, usual), usual
        if adds:
            items = place.get(last, usual) if isinstance(place, dict) else None
            if items is None and name == "sources":
                items = []
            if not isinstance(place, dict) or not isinstance(items, list):
                raise ConfigError(f"--set {assignment!r}: {name} is not a list; write = for +=")
            value = [*items, *(value if isinstance(value, list) else [value])]
        place[last] = value


def _first_step(place: Any, keys: list[str], assignment: str) -> tuple[Any, list[str]]:
    """The key that the first of `keys` names in a mapping, or the index in a list, and the keys
    after it. An entry of a list goes by its number, or by the `use` or `name` of a plug-in, whose
    dots separate no keys."""
    if not isinstance(place, list):
        return keys[0], keys[1:]
    entries = [entry if isinstance(entry, dict) else {"use": entry} for entry in place]
    for index, entry in enumerate(entries):
        for name in (entry.get("use"), entry.get("name")):
            if isinstance(name, str) and keys[: (parts := name.count(".") + 1)] == name.split("."):
                return index, keys[parts:]
    if keys[0].isdecimal() and int(keys[0]) < len(place):
        return int(keys[0]), keys[1:]
    names = [str(entry.get("use") or entry.get("name")) for entry in entries]
    raise ConfigError(
        f"--set {assignment!r}: the list has no entry {keys[0]}; "
        f"{explaining.meant(keys[0], names)}it has {', '.join(names) or 'none'}; key.list+=value "
        "adds one"
    )


def _step_into(place: Any, key: Any, assignment: str, default: JsonValue) -> Any:
    if isinstance(place, list):
        if isinstance(place[key], str):  # a format given by its name only
            place[key] = {"use": place[key]}
        child = place[key]
    else:
        # A missing container starts as the default, if that is a list or a plug-in, else empty.
        whole = isinstance(default, list) or (isinstance(default, dict) and "use" in default)
        child = place.setdefault(key, default if whole else {})
        if child is None:  # a run's settings.json has null for an unset setting
            place[key] = child = {}
    if not isinstance(child, dict | list):
        raise ConfigError(f"--set {assignment!r}: {key} is not a mapping")
    return child
