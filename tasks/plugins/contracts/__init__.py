"""The contracts of plug-ins, kind by kind, as types.

A built-in file, or your own module, is a plug-in if it has the abstract members of its kind. It may
omit the others: `tasks.plugins.load` fills in their defaults. `settings` is always an instance of
the module's own `Settings`. Modules import heavy libraries only inside functions.
"""

from __future__ import annotations
import __future__

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from types import FunctionType, ModuleType, new_class
from typing import Any, Literal, NamedTuple

from .asr import Recogniser
from .audio import DiarizerPlugin, EnhancerPlugin, Filter, Level, Resampler
from .base import Columns, LoadedPlugin, limits
from .formats import Format
from .segmenters import SegmenterPlugin
from .sources import Source
from .text import TextVerdict

#: Kinds whose plug-ins have columns and rules.
Measuring = Literal["filters", "text"]


class Contract(NamedTuple):
    """The word for plug-ins of a kind, and their class."""

    noun: str
    plugin: ABCMeta


CONTRACTS = {
    "sources": Contract("source", Source),
    "diarizers": Contract("diarizer", DiarizerPlugin),
    "segmenters": Contract("segmenter", SegmenterPlugin),
    "filters": Contract("filter", Filter),
    "enhance": Contract("enhancer", EnhancerPlugin),
    "resamplers": Contract("resampler", Resampler),
    "levels": Contract("level", Level),
    "asr": Contract("recogniser", Recogniser),
    "text": Contract("rule on texts", TextVerdict),
    "formats": Contract("format", Format),
}


def members(contract: type) -> dict[str, str]:
    """Each public member of a contract, with its signature: `verdict(settings) -> …`, `VERSION:
    int`."""
    signatures: dict[str, str] = {}
    for base in reversed(contract.__mro__):
        signatures |= {
            name: f"{name}: {annotation}"
            for name, annotation in inspect.get_annotations(base).items()
        }
        signatures |= {
            name: written(value)
            for name, value in vars(base).items()
            if isinstance(value, FunctionType | property) and not name.startswith("_")
        }
    return signatures


def written(member: Callable[..., object] | property) -> str:
    """A method or property of a contract as a module declares it: without `self`."""
    if isinstance(member, property):
        assert member.fget is not None
        return f"{member.fget.__name__}: {inspect.get_annotations(member.fget)['return']}"
    signature = inspect.signature(member)
    parameters = [p for name, p in signature.parameters.items() if name != "self"]
    return f"{member.__name__}{signature.replace(parameters=parameters)}".replace("'", "")


def lacking(module: ModuleType, contract: ABCMeta) -> list[str]:
    """The signatures of a contract's abstract members that a module lacks."""
    missing = {name for name in contract.__abstractmethods__ if not hasattr(module, name)}
    return [how for name, how in members(contract).items() if name in missing]


def misspelt(module: ModuleType, contract: type) -> Iterator[tuple[str, str]]:
    """(name, member) for each public function or constant of a module whose name resembles that of
    a member it lacks."""
    names = members(contract).keys()
    unused = {name.lower(): name for name in names - vars(module).keys()}
    for name, value in vars(module).items():
        if isinstance(value, FunctionType):
            foreign = value.__module__ != module.__name__  # imported
        else:
            foreign = isinstance(value, ModuleType | type | __future__._Feature)
        if foreign or name in names or name.startswith("_"):
            continue
        for near in get_close_matches(name.lower(), unused, 1, cutoff=0.8):
            yield name, unused[near]


def filled(module: ModuleType, contract: type) -> Any:
    """The plug-in that a module is: its members, and the contract's defaults for the others."""
    namespace: dict[str, object] = {"__name__": module.__name__, "__module__": module.__name__}
    for name in members(contract):
        if hasattr(module, name):
            value = getattr(module, name)
            plain = isinstance(value, type) or not callable(value)
            namespace[name] = value if plain else staticmethod(value)
    return new_class(
        module.__name__, (contract,), exec_body=lambda names: names.update(namespace)
    )()
