"""Reads a contract at run time: its members, and a module with the defaults filled in."""

from __future__ import annotations
import __future__

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from types import FunctionType, MethodType, ModuleType
from typing import Any


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
    a member it lacks. It may be a helper of the module."""
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


class Filled:
    """A module as callers see it: its own members, and the contract's defaults for the others.

    The module's members are looked up at each access, so that a test can replace them.
    """

    def __init__(self, module: ModuleType, contract: type) -> None:
        self._module, self._contract, self.__name__ = module, contract, module.__name__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        member = getattr(self._module, name, _MISSING)
        if member is not _MISSING:
            return member
        default = getattr(self._contract, name)
        if isinstance(default, property):
            return default.__get__(self)
        return MethodType(default, self) if isinstance(default, FunctionType) else default

    def __repr__(self) -> str:
        return f"<plug-in {self._module.__name__}>"


_MISSING = object()
