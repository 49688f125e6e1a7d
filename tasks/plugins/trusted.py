"""Which plug-ins may be imported by a dotted name: those that a person names to this process, in a
settings file, by `--set` or in code; with `--trust-plugins`, any.

What lies in OUT is data: a stranger may have written its settings, and importing a module runs it
(`venv.__main__`, which Python ships, runs a program of the folder that it is given). The names are
in a variable of the process, which its children inherit; a call to a worker that is no child
carries them (`Cluster.submit`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ..base import environment
from ..base.errors import ConfigError
from ..base.json_types import JsonValue

#: Places of plug-ins in settings, and the plug-ins' kind.
PLACES = {
    "speakers": "diarizers",
    "filter.segmenter": "segmenters",
    "filter.filters": "filters",
    "enhance": "enhance",
    "resample.resampler": "resamplers",
    "resample.levels": "levels",
    "transcribe.backend": "asr",
    "transcribe.backends": "asr",
    "transcribe.verdicts": "text",
    "package.formats": "formats",
}
DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_LISTS = frozenset(place.rpartition(".")[2] for place in PLACES)


class Untrusted(ConfigError):
    """What lies in OUT names plug-ins that nobody named to this process."""


def trust(settings: JsonValue) -> None:
    """Allow the plug-ins that settings name, whole ones or a part: a person gave them."""
    allow(_dotted(settings))


def allow(names: Iterable[str]) -> None:
    environment.set_own_plugins({*environment.own_plugins(), *names})


def check(uses: Iterable[str], where: object) -> None:
    """Raises Untrusted if one of the plug-ins may not be imported; `where`: what names them."""
    allowed = environment.own_plugins()
    unknown = [use for use in uses if "." in use and use not in allowed]
    if unknown and not allowed >= environment.ANY_PLUGIN:
        names = " and ".join(dict.fromkeys(unknown))
        raise Untrusted(
            f"{where} names the plug-in {names}, which is not loaded, because what lies in OUT is "
            "data; if you trust it, --trust-plugins loads it, or a settings file of your own that "
            "names it"
        )


def check_settings(settings: Mapping[str, JsonValue], where: object) -> None:
    """Raises Untrusted if settings that were read from OUT name such a plug-in."""
    uses: list[str] = []
    for place in ("sources", *PLACES):
        value: JsonValue = settings
        for key in place.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        single = () if place == "sources" else (value,)
        for entry in value if isinstance(value, list) else single:
            key = "kind" if place == "sources" else "use"
            name = entry.get(key) if isinstance(entry, Mapping) else entry
            if isinstance(name, str):
                uses.append(name)
    check(uses, where)


def _dotted(value: JsonValue, key: str = "") -> Iterator[str]:
    """Dotted names in settings. Plug-ins stand in the settings of others, too, so every text that
    looks like a name counts, except in lists of other things, which may be long."""
    if isinstance(value, str):
        if DOTTED.fullmatch(value):
            yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _dotted(inner, name)
    elif isinstance(value, list):
        for inner in value:
            if not isinstance(inner, str) or not key or key in _LISTS:
                yield from _dotted(inner)
