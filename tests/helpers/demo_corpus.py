"""The demo corpus, made once for all processes that share the tests: speaking it takes 7 s of CPU.

The command's test gives what the command made; else the first test that wants it makes it.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.prefect_database import base, turn
from uttermill.flows.demo import corpus


def give(made: Path, factory: pytest.TempPathFactory) -> None:
    """Keep a whole corpus for the others, which take copies of it."""
    _kept(factory, lambda half: shutil.copytree(made, half, dirs_exist_ok=True))


def take(folder: Path, factory: pytest.TempPathFactory) -> Path:
    """A copy of it in `folder`, which does not exist yet."""
    return shutil.copytree(_kept(factory, corpus.make_corpus), folder)


def _kept(factory: pytest.TempPathFactory, make: Callable[[Path], object]) -> Path:
    """The corpus that all share; made now if there is none."""
    kept = base(factory) / "demo-corpus"
    with turn(kept):
        if not kept.exists():
            half = kept.with_suffix(".half")
            make(half)
            half.rename(kept)
    return kept
