"""An engine that crashes on this machine is no bad data: it is named, and no item is blamed."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from flows.cli import doctor
from flows.cluster.settings import ClusterSettings
from tasks.base.errors import RunError
from tasks.runs import libraries
from tasks.stages import isolate, known_good
from tasks.stages.spawn_check import ended
from tests.faults.command import Site
from tests.helpers import corpus

LIBRARY = "tests.plugins.fatal_library"
NAMED = f"{LIBRARY} ends each process that loads it, by signal 4 (SIGILL)"


def test_how_a_process_ended() -> None:
    assert [ended(status) for status in (-11, 3, -65)] == [
        "signal 11 (SIGSEGV)", "exit status 3", "signal 65",
    ]  # fmt: skip


def test_the_library_that_kills_is_found() -> None:
    told = libraries.fatal({"json": "loads", LIBRARY: "run", "csv": "reader"})
    assert told is not None
    assert told.startswith(NAMED)
    assert libraries.fatal({"json": "loads", "no_such_module": "x"}) is None, "that is told so"


@pytest.mark.cluster
def test_a_run_names_the_library(bare: Site) -> None:
    corpus.make(bare.source, 2)
    broken = bare.run(
        bare.settings("out", filter={"filters": [{"use": "tests.plugins.broken_filter"}]})
    )
    assert broken.code == 1
    assert broken.error.startswith(NAMED)
    assert "quarantined" not in broken.stderr
    assert not (bare.home / "out/datasets").exists()


@pytest.mark.cluster
def test_doctor_names_the_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "ENGINES", {LIBRARY: "run"})
    assert doctor.doctor(Namespace(json=True), ClusterSettings(workers=1), doctor.Places()) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["detail"].startswith(NAMED)


#: Of a recogniser and of a filter that die whatever they get, and when.
BROKEN: dict[str, dict[str, Any]] = {
    "the recogniser tests.plugins.poison_asr": {
        "transcribe": {"backend": {"use": "tests.plugins.poison_asr", "how": "segv", "seconds": 0}}
    },
    "the filter tests.plugins.poison": {
        "filter": {"filters": [{"use": "tests.plugins.poison", "how": "segv", "seconds": 0}]}
    },
}


@pytest.mark.cluster
@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_crashes_on_a_good_clip_blames_no_item(bare: Site, name: str) -> None:
    corpus.make(bare.source, 3)
    broken = bare.run(bare.settings("out", **BROKEN[name]))
    assert broken.code == 1
    assert broken.error.startswith(
        f"{name} crashes on a clip that is known to be good (signal 11 (SIGSEGV)), so no item is"
    )
    assert "quarantined" not in broken.stderr
    mended = bare.done(bare.settings("out"))
    assert mended.result["recordings"] == {"in": 3, "failed": 0}


def test_what_a_stage_is_tried_with(tmp_path: Path) -> None:
    job = corpus.job(tmp_path)
    for stage, count in (("filter", 3), ("resample", 1), ("transcribe", 1), ("probe", 0)):
        trials = [*known_good.trials(stage, job)]
        assert len(trials) == count
        for _, trial in trials:
            trial()


def test_a_worker_tries_a_stage_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = corpus.job(
        tmp_path, transcribe=BROKEN["the recogniser tests.plugins.poison_asr"]["transcribe"]
    )
    monkeypatch.setattr(isolate, "_tried", set())
    unit: Any = Named("u")
    with pytest.raises(RunError, match="is known to be good"):
        next(isolate.results("transcribe", job, [unit]))
    monkeypatch.setattr(isolate, "_tried", {"transcribe"})
    with isolate._Child("transcribe", job, []) as child:
        assert child.next()[1] == "crashed", "it has no unit, and ended"
        assert child.trying == ""


class Named:
    """A unit that is never computed."""

    def __init__(self, name: str) -> None:
        self.name = name
