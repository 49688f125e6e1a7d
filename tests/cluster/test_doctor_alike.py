"""The doctor on workers that people started: who would compute other data, and why."""

from __future__ import annotations

import json
import os
import platform
import textwrap
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import ROOT, Ended, Site
from tests.helpers import by_hand, corpus, own_plugin
from uttermill.flows.cli import doctor_checks
from uttermill.flows.cluster.doctor_facts import Computing
from uttermill.tasks.runs import likeness
from uttermill.tasks.stages.isolate import Rehearsal

OURS = {likeness.CODE: "a", likeness.PLUGINS: "b", "numpy": "2", "the processor": "x86_64"}
FILES = {"tasks/asr/ctc.py": "1", "tasks/asr/fake.py": "1", "mine/beep.py": "1"}
RAN = Rehearsal((("the recogniser ctc", 0.26),), ())

#: What an interpreter begins with: numpy says another version.
OTHER_NUMPY = """
    import importlib.metadata as metadata

    version = metadata.version
    metadata.version = lambda name: "0.1" if name == "numpy" else version(name)
"""
#: And another processor. soundfile looks for its library by that name, and has this one's here.
ARM = """
    import platform

    import soundfile

    platform.machine = lambda: "aarch64"
"""


def computing(rehearsal: Rehearsal = RAN, **changed: str) -> Computing:
    return Computing(OURS | changed, FILES, rehearsal)


def test_who_computes_other_data_is_told_with_what() -> None:
    edited = Computing({**OURS, likeness.CODE: "x"}, {**FILES, "tasks/asr/fake.py": "2"}, RAN)
    workers = {"a": computing(), "b": computing(numpy="1"), "c": edited}
    told = doctor_checks.alike(workers, OURS, FILES, mixed=False)
    assert (told.ok, told.detail) == (
        False,
        "b has other numpy 1 (here 2); c has other uttermill's code (tasks/asr/fake.py): "
        "install there what is here, or set cluster.mixed: true",
    )
    told = doctor_checks.alike(workers, OURS, FILES, mixed=True)
    assert told.ok
    assert told.detail.endswith(": allowed by cluster.mixed")
    workers["d"] = Computing({**OURS, likeness.WEIGHTS: "two"}, FILES, RAN)
    assert not doctor_checks.alike(workers, OURS, FILES, mixed=True).ok
    assert doctor_checks.alike({"a": computing()}, OURS, FILES, mixed=False).ok


def test_what_runs_on_a_good_clip_is_told() -> None:
    slower = Rehearsal((("the recogniser ctc", 0.51),), ())
    told = doctor_checks.models({"a": computing(), "b": computing(slower)})
    assert (told.ok, told.detail) == (True, "run on a good clip: the recogniser ctc 0.5 s")
    broken = Rehearsal((), ("the recogniser ctc crashes",))
    told = doctor_checks.models({"a": computing(), "b": computing(broken)})
    assert (told.ok, told.detail) == (False, "b: the recogniser ctc crashes")


#: Appended to a filter: its model's identity, which each worker reads on its own disk.
WEIGHTS = """

def identity(settings):
    from pathlib import Path

    return Path(__file__).with_name("weights").read_text()
"""


def plug_in(home: Path, weights: str = "one", edited: str = "") -> Path:
    """A folder with a user's filter `mine.silence`, as it is on one machine."""
    mine = home / "mine"
    mine.mkdir(parents=True)
    (mine / "__init__.py").touch()
    code = own_plugin.copied("tasks/filters/silence.py")
    (mine / "silence.py").write_text(code + WEIGHTS + edited)
    (mine / "weights").write_text(weights)
    return home


@pytest.mark.cluster
@pytest.mark.nightly
def test_each_worker_that_differs_is_named_and_refused_or_recorded(tmp_path: Path) -> None:
    here = plug_in(tmp_path / "here")
    machines = {
        "alike": here,
        "arm": plug_in(tmp_path / "arm", edited="# edited\n"),
        "weights": plug_in(tmp_path / "weights", weights="two"),
        "numpy": plug_in(tmp_path / "numpy"),
    }
    for name, code in ("numpy", OTHER_NUMPY), ("arm", ARM):
        (machines[name] / "sitecustomize.py").write_text(textwrap.dedent(code))
    path = {"PYTHONPATH": f"{here}{os.pathsep}{ROOT}"}
    site = Site(tmp_path, "", path, history="none")
    corpus.make(site.source, 2)
    filters = [{"use": "duration"}, {"use": "mine.silence"}]
    with by_hand.scheduler(tmp_path) as address, ExitStack() as workers:
        for name, folder in machines.items():
            there = f"{folder}{os.pathsep}{ROOT}"
            workers.enter_context(
                by_hand.worker(tmp_path, address, "--name", name, PYTHONPATH=there)
            )
        cluster = {"kind": "address", "address": address, "workers": len(machines)}
        settings = site.settings("out", cluster=cluster, filter={"filters": filters})
        examined = site.command("doctor", settings)
        refused = site.run(settings)
        mixed = site.run(site.settings("mixed", cluster={**cluster, "mixed": True},
                                       filter={"filters": filters}))  # fmt: skip
    assert examined.code == 1
    findings = {finding["name"]: finding for finding in examined.result["findings"]}
    told = findings["same data"]["detail"]
    assert told.count(" has other ") == len(machines) - 1
    for words in (
        "has other the code of plug-ins (mine/silence.py)", "has other numpy 0.1 (here ",
        "has other weights or versions of plug-ins",
        f"the processor aarch64 (here {platform.machine()})",
    ):  # fmt: skip
        assert words in told
    assert findings["engines"]["ok"]
    assert "the filter mine.silence" in findings["engines"]["detail"]

    assert refused.code == 0, "one worker is alike"
    assert refused.stderr.count("gets no work: it would compute other data") == len(machines) - 1
    assert "mixed" not in described(refused)
    assert mixed.code == 0, mixed.stderr
    kinds = ("libsndfile", "numpy 0.1", "the code of plug-ins", "the processor")
    # A processor brings its libraries with it.
    assert all(what.startswith(kinds) for what in described(mixed)["mixed"])
    assert len(described(mixed)["mixed"]) >= len(machines) - 2
    assert mixed.stderr.count("this run would not find its results") == 1, "other weights"
    assert mixed.result["recordings"] == {"in": 2, "failed": 0}


def described(run: Ended) -> dict[str, Any]:
    text = (Path(run.result["dataset"]) / "dataset.json").read_text()
    described: dict[str, Any] = json.loads(text)
    return described
