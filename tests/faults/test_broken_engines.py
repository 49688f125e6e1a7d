"""An engine that crashes on this machine is no bad data: it is named, and no item is blamed."""

import platform
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import Site
from tests.helpers import corpus, tiers
from uttermill.tasks import pipeline
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.plugins import DIARIZERS
from uttermill.tasks.runs import libraries
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.transcribe import TranscribeSettings
from uttermill.tasks.shard_store.requests import Recognition, Request
from uttermill.tasks.stages import isolate, known_good
from uttermill.tasks.stages.spawn_check import ended

LIBRARY = "tests.plugins.fatal_library"
NAMED = f"{LIBRARY} ends each process that loads it, by signal 4 (SIGILL)"


def test_how_a_process_ended() -> None:
    assert [ended(status) for status in (-11, 3, -65)] == [
        "signal 11 (SIGSEGV)", "exit status 3", "signal 65",
    ]  # fmt: skip


@pytest.mark.nightly
def test_the_library_that_kills_is_found() -> None:
    told = libraries.fatal({"json": "loads", LIBRARY: "run", "csv": "reader"})
    assert told is not None
    assert told.startswith(NAMED)
    assert libraries.fatal({"json": "loads", "no_such_module": "x"}) is None, "that is told so"


@pytest.mark.cluster
@pytest.mark.full
def test_a_run_names_the_library(bare: Site) -> None:
    corpus.make(bare.source, 2)
    broken = bare.run(
        bare.settings("out", filter={"filters": [{"use": "tests.plugins.broken_filter"}]})
    )
    assert broken.code == 1
    assert broken.error.startswith(NAMED)
    assert "quarantined" not in broken.stderr
    assert not (bare.home / "out/datasets").exists()


def recogniser(name: str, how: str, seconds: float = 0) -> dict[str, Any]:
    """Settings of one that misbehaves on clips of this length, or on all."""
    return {"transcribe": {"backend": {"use": name, "how": how, "seconds": seconds}}}


def measuring(name: str, how: str) -> dict[str, Any]:
    return {"filter": {"filters": [{"use": name, "how": how, "seconds": 0}]}}


#: Recognisers and filters, with models and without, that die whatever they get.
BROKEN: dict[str, dict[str, Any]] = {
    "the recogniser tests.plugins.poison_asr": recogniser("tests.plugins.poison_asr", "segv"),
    "the recogniser tests.plugins.poison_model": recogniser("tests.plugins.poison_model", "segv"),
    "the filter tests.plugins.poison": measuring("tests.plugins.poison", "segv"),
    "the filter tests.plugins.poison_weights": measuring("tests.plugins.poison_weights", "segv"),
}
FAILING = {
    "the recogniser tests.plugins.poison_model": recogniser("tests.plugins.poison_model", "bug"),
    "the filter tests.plugins.poison_weights": measuring("tests.plugins.poison_weights", "bug"),
}


@pytest.mark.cluster
@pytest.mark.parametrize("name", tiers.few(BROKEN, "the filter tests.plugins.poison_weights"))
@pytest.mark.nightly
def test_a_model_that_crashes_on_a_good_clip_blames_no_item(bare: Site, name: str) -> None:
    corpus.make(bare.source, 3)
    broken = bare.run(bare.settings("out", **BROKEN[name]))
    assert broken.code == 1
    assert broken.error.startswith(
        f"{name} crashes in its self-test on {platform.node()} (signal 11 (SIGSEGV)); no recording"
    )
    assert "quarantined" not in broken.stderr
    mended = bare.done(bare.settings("out"))
    assert mended.result["recordings"] == {"in": 3, "failed": 0}


@pytest.mark.parametrize("name", FAILING)
def test_a_model_that_fails_on_a_good_clip_blames_no_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Not even one that gives each item an error of its own."""
    monkeypatch.setattr(known_good, "_passed", set())
    corpus.make(tmp_path / "in", 2)
    job = corpus.job(tmp_path, out=tmp_path / "out", **FAILING[name])
    with pytest.raises(RunError) as told:
        pipeline.run_here(job)
    assert str(told.value).startswith(
        f"{name} fails in its self-test on {platform.node()} (ValueError: our own bug); no recor"
    )
    assert not list((tmp_path / "out").glob("manifests/transcribe/*"))


def test_a_model_is_tried_once_a_process_and_nothing_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(known_good, "_passed", set())
    monkeypatch.setattr(known_good, "attempt", lambda trial: tried.append(trial.name))
    corpus.make(tmp_path / "in", 2)
    plain = corpus.job(tmp_path, out=tmp_path / "plain", shard={"hours": 1e-5})
    pipeline.run_here(plain)
    assert tried == []
    poisoned = recogniser("tests.plugins.poison_model", "nothing")
    job = corpus.job(tmp_path, out=tmp_path / "out", shard={"hours": 1e-5}, **poisoned)
    pipeline.run_here(job)
    pipeline.run_here(job)
    assert tried == ["the recogniser tests.plugins.poison_model"]


def test_what_a_stage_is_tried_with(tmp_path: Path) -> None:
    job = corpus.job(tmp_path)
    for stage, count in (("filter", 3), ("resample", 1), ("transcribe", 1), ("probe", 0)):
        trials = [*known_good.trials(stage, job)]
        assert len(trials) == count
        assert not any(trial.model for trial in trials)
        for trial in trials:
            trial.run()


def test_all_that_has_a_model_is_tried(tmp_path: Path) -> None:
    job = corpus.job(
        tmp_path,
        sources=({"kind": "folder", "path": str(tmp_path), "channels": "auto"},),
        filter={"segmenter": {"use": "vad"}, "filters": [
            {"use": "snr"}, {"use": "dnsmos"}, {"use": "speaker_purity"}, {"use": "duration"},
        ]},
    )  # fmt: skip
    heard = [{"use": "moonshine"}, {"use": "fake"}, {"use": "openai_api"}]
    job = replace(
        job, speakers=Plugin(use="segments"), enhance=Plugin(use="gtcrn"),
        transcribe=TranscribeSettings.model_validate({"backends": heard}),
    )  # fmt: skip
    models = {
        stage: [trial.name for trial in known_good.trials(stage, job) if trial.model]
        for stage in ("probe", "filter", "resample", "transcribe")
    }
    assert models == {
        "probe": ["the voice detector"],
        "filter": [
            "the segmenter vad", "the diarizer segments", "the filter snr", "the filter dnsmos",
            "the filter speaker_purity",
        ],
        "resample": ["the enhancer gtcrn", "the filter dnsmos"],
        "transcribe": ["the recogniser moonshine"],
    }  # fmt: skip


@pytest.mark.needs("speakers")
def test_the_voice_is_one_to_a_diarizer() -> None:
    """So that its embedding runs, too."""
    diarizer = DIARIZERS.load("segments")
    (turn,) = known_good.pushed(lambda: diarizer.start(diarizer.Settings(), 16000, ()))
    assert turn.voice


@pytest.mark.full
def test_what_hangs_or_takes_all_memory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_good, "_passed", set())
    pcm: Any = {"recording": "c/r00.wav"}
    unit = Request(Recognition("a", None, None), pcm, "shard-000000")
    for how, start, words in (
        ("hang", 12.0, "no result within"), ("memory", 30.0, "its process grew beyond"),
    ):  # fmt: skip
        monkeypatch.setattr(isolate, "START", start)
        job = corpus.job(
            tmp_path, item_timeout=5.0, memory_limit=600 << 20,
            **recogniser("tests.plugins.poison_model", how),
        )  # fmt: skip
        sentence = f"does not end in its self-test on {platform.node()} ({words}"
        with pytest.raises(RunError, match=re.escape(sentence)):
            next(isolate.results("transcribe", job, [unit]))


@pytest.mark.nightly
def test_a_rehearsal_says_what_ran_and_what_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_good, "_passed", set())
    job = corpus.job(tmp_path, **BROKEN["the recogniser tests.plugins.poison_model"])
    ran, faults = isolate.rehearse(job)
    assert [name for name, _ in ran] == [
        *(trial.name for stage in ("filter", "resample") for trial in known_good.trials(stage, job))
    ]
    (fault,) = faults
    assert "poison_model crashes in its self-test on" in fault
    assert "(signal 11 (SIGSEGV))" in fault


def test_the_sound_is_the_same_whatever_a_plugin_does_with_it() -> None:
    known_good.sound(16000)[:] = 0
    assert known_good.sound(16000).any()
