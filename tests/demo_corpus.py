"""The demo corpus, made once for all processes that share the tests: speaking it takes 7 s of CPU.

The command's test gives what the command made; else the first test that wants it makes it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flows.demo import corpus
from tests.prefect_database import base, turn


def give(made: Path, factory: pytest.TempPathFactory) -> None:
    """Keep a whole corpus for the others, which take copies of it."""
    kept = base(factory) / "demo-corpus"
    with turn(kept):
        if not kept.exists():
            half = kept.with_suffix(".half")
            shutil.copytree(made, half, dirs_exist_ok=True)
            half.rename(kept)


def take(folder: Path, factory: pytest.TempPathFactory) -> Path:
    """A copy of it in `folder`, which does not exist yet."""
    kept = base(factory) / "demo-corpus"
    with turn(kept):
        if not kept.exists():
            half = kept.with_suffix(".half")
            corpus.make_corpus(half)
            half.rename(kept)
    return shutil.copytree(kept, folder)
