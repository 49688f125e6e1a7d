"""The demo corpus, made once for all processes that share the tests: it takes 7 s of CPU."""

import shutil
from pathlib import Path

import pytest

from tests.helpers.prefect_database import base, turn
from uttermill.flows.demo import corpus


def take(folder: Path, factory: pytest.TempPathFactory) -> Path:
    """A copy of it in `folder`, which does not exist yet."""
    kept = base(factory) / "demo-corpus"
    with turn(kept):
        if not kept.exists():
            half = kept.with_suffix(".half")
            corpus.make_corpus(half)
            half.rename(kept)
    return shutil.copytree(kept, folder)
