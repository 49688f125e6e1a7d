"""Growth, equal bytes and kills in all that formats write beside their defaults."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.formats.test_formats import package, shards_of
from tests.helpers import corpus, tiers
from uttermill.tasks.formats.metadata_csv import PROFILES

pytestmark = pytest.mark.full

_ENCODED = {
    "hf_audiofolder": {"audio": "mp3"}, "f5": {"audio": "flac"}, "piper": {"audio": "opus"},
    "coqui": {"audio": "flac"}, "styletts2": {"audio": "mp3"},
}  # fmt: skip
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "metadata_csv": [
        {"profile": name, **_ENCODED.get(name, {})} for name in PROFILES if name != "ljspeech"
    ],
    "chat_jsonl": [
        {"profile": "llama_factory", "audio": "flac"}, {"profile": "qwen_audio"},
        {"profile": "ms_swift", "turns": 2, "max_gap": 60},
    ],
    "webdataset": [{"energon": True, "audio": "flac"}, {"audio": "mp3"}],
    "lhotse_shar": [{"index": True}, {"audio": "opus"}],
    "hf_parquet": [{"audio": "opus"}],
    "mds": [{"audio": "flac"}],
    "litdata": [{"audio": "mp3"}],
    "lance": [{"audio": "flac"}],
    "nemo": [{"audio": "flac"}],
    "emilia": [{"audio": "mp3"}],
    "features": [{"like": "wenet"}],
}  # fmt: skip
#: Each variant is in one of these, as a version has a format once; from the fourth on, each is a
#: profile alone.
LOOKS = [
    [{"use": use, **of_use[number]} for use, of_use in VARIANTS.items() if number < len(of_use)]
    for number in range(max(map(len, VARIANTS.values())))
]
#: By day each format once; the night has the other variants.
EACH = [
    (tiers.nightly if look else pytest.param)(look, str(one["use"]))
    for look, some in enumerate(LOOKS) for one in some
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six recordings, computed."""
    tmp = tmp_path_factory.mktemp("variants")
    corpus.make(tmp / "in", 6)
    corpus.run(corpus.job(tmp))
    return tmp


@pytest.fixture(scope="module")
def looked(made: Path) -> Callable[[int], Path]:
    """The versions of a look, made when they are asked for; the second has one recording more."""

    @cache
    def versions_of(number: int) -> Path:
        out = made / f"look{number}"
        shutil.copytree(made / "out", out, ignore=shutil.ignore_patterns("datasets"))
        job = corpus.job(made, out=out, package=package(*LOOKS[number]))
        corpus.run(job)
        added = corpus.add(made / "in", 6)
        corpus.run(job)
        added.unlink()
        return out / "datasets"

    return versions_of


@pytest.mark.parametrize(("look", "use"), EACH)
def test_growth_links_what_stayed(looked: Callable[[int], Path], look: int, use: str) -> None:
    one, two = looked(look) / "v0001", looked(look) / "v0002"
    old, new = shards_of(one, use), shards_of(two, use)
    assert (len(old), len(new)) == (2, 3)
    for before, after in zip(old, new, strict=False):
        assert before.files
        assert [(one / path).stat().st_ino for path in before.files] == [
            (two / path).stat().st_ino for path in after.files
        ]
