"""What only some machines have: weights that `uttermill models fetch` brings, a corpus of real
recordings, a browser. A test marked `needs("speakers", "corpus")` is of the full tier, and skipped
where one of them is missing."""

import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from uttermill.tasks.base import shelves
from uttermill.tasks.models import model_files, registry

#: A folder of real recordings with a `manifest.jsonl`, for tests marked `needs("corpus")`.
CORPUS = Path(os.environ.get("UTTERMILL_CORPUS", "")).resolve()
#: The shell is Chromium's engine without windows and toolbars, which take most of its CPU.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


@cache
def lacks(what: str) -> str:
    """Why a test that needs this is skipped here; empty where it is not."""
    if what == "corpus":
        return "" if "UTTERMILL_CORPUS" in os.environ else "UTTERMILL_CORPUS is not set"
    if what == "chromium":
        return "" if CHROMIUM else "there is no chromium on this machine"
    models = registry.fetched(what)
    assert models, f"nothing is called {what}"
    if all(model_files.state(model) == "ok" for model in models):
        return ""
    return f"its weights are not here: run `uttermill models fetch {what}`"


def filters() -> list[Any]:
    """Names on the shelf, as parameters of a test that measures; `audio_language` has no weights
    but those of a folder."""
    fetched = {"speaker_purity": "speakers", "voice": "speakers", "distillmos": "distillmos",
               "sounds": "sounds", "music": "sounds"}  # fmt: skip
    return [
        pytest.param(name, marks=pytest.mark.needs(fetched[name])) if name in fetched else name
        for name in shelves.names("filters")
        if name != "audio_language"
    ]
