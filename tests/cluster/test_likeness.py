"""Other code, libraries, weights or processors give other data: such a worker is refused, or what
it differs in is recorded."""

import os
from functools import partial
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from tests.helpers import corpus, own_plugin
from uttermill.flows.cluster import proofs
from uttermill.flows.cluster.proofs import Computing
from uttermill.flows.cluster.workers import Admission
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.runs import likeness
from uttermill.tasks.shard_store import index
from uttermill.tasks.stages.isolate import Rehearsal

OURS = {likeness.CODE: "a", likeness.WEIGHTS: "b", "numpy": "2.3.1", "the processor": "x86_64"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, []),
        ({likeness.CODE: "other"}, ["uttermill's code"]),
        ({"numpy": "1.26.4"}, ["numpy 1.26.4 (here 2.3.1)"]),
        ({"the processor": "aarch64"}, ["the processor aarch64 (here x86_64)"]),
        ({likeness.WEIGHTS: "c", "more": "1"}, [likeness.WEIGHTS, "more 1 (here None)"]),
    ],
)
def test_what_differs(changed: dict[str, str], words: list[str]) -> None:
    assert likeness.differences(OURS, {**OURS, **changed}) == words


def test_what_counts(tmp_path: Path) -> None:
    ours = likeness.of_this_process(job := corpus.job(tmp_path))
    assert likeness.of_this_process(job) == ours
    for name in ("numpy", "soxr", "av", "libavcodec", "libsndfile", "libsoxr", "ctranslate2"):
        assert name in ours
    assert "python" not in ours, "two patch releases of Python give the same data"
    other = corpus.job(tmp_path, transcribe={"backend": {"use": "fake", "seed": 7}})
    assert likeness.differences(ours, likeness.of_this_process(other)) == [likeness.WEIGHTS]


def test_plug_ins_count_with_what_lies_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lying_beside").mkdir()
    for name in ("__init__", "helper"):
        (tmp_path / "lying_beside" / f"{name}.py").write_text("")
    (tmp_path / "lying_beside/silence.py").write_text(own_plugin.copied("tasks/filters/silence.py"))
    monkeypatch.syspath_prepend(str(tmp_path))
    job = corpus.job(tmp_path, filter={"filters": [{"use": "lying_beside.silence"}]})
    before = likeness.of_this_process(job)
    (tmp_path / "lying_beside/helper.py").write_text("LIMIT = 3\n")
    assert likeness.differences(before, likeness.of_this_process(job)) == [likeness.PLUGINS]


class Client:
    """Workers by address: what each answers to `likeness.of_this_process`."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def run(self, function: Any, *args: Any, workers: list[str], **how: Any) -> dict[str, Any]:
        if isinstance(function, partial):  # `worker.trusting` passes on which plug-ins may load
            function = function.args[-1]
        if function is likeness.of_this_process:
            assert args[0].scratch is None
            return {name: self.answers[name] for name in workers if name in self.answers}
        fine = {version: version("uttermill"), resolve_name: 1.0, os.access: True}
        return dict.fromkeys(workers, fine[function])


def admitted(asking: Admission, *workers: str) -> list[str]:
    asking.ask(workers)
    return asking.admitted(workers)


def test_who_computes_other_data_gets_no_work(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, scratch=tmp_path)
    ours = likeness.of_this_process(job)
    client = Client(
        a=ours, b={**ours, "numpy": "1"}, c=ConfigError("no such model"), d=OSError("it died"),
    )  # fmt: skip
    asking = Admission(client, None, job)
    assert admitted(asking, "a", "b", "c", "d") == ["a"]
    numpy, model = asking.refused(["a", "b", "c", "d"])
    assert numpy.startswith("b: it would compute other data, because it has other numpy 1 (here ")
    assert numpy.endswith("install there what is here, or set cluster.mixed: true")
    assert model == "c: it could not report its code and libraries: no such model"
    assert index.mixed(job.out) == []

    let = Admission(client, None, job, mixed=True)
    assert admitted(let, "a", "b", "c", "d") == ["a", "b"]
    assert index.mixed(job.out) == [f"numpy 1 (here {ours['numpy']})"]

    # What it stores would never be found: its recipes are other ones.
    weights = Client(a=ours, b={**ours, likeness.WEIGHTS: "other"})
    let = Admission(weights, None, job, mixed=True)
    assert admitted(let, "a", "b") == ["a"]
    (told,) = let.refused(["a", "b"])
    assert told.startswith("b: this run would not find its results, because it has other")
    assert "weights" not in str(index.mixed(job.out))


def test_what_was_mixed_is_kept(tmp_path: Path) -> None:
    assert index.mixed(tmp_path) == []
    index.note_mixed(tmp_path, ["numpy 1 (here 2)"])
    index.note_mixed(tmp_path, [])
    index.note_mixed(tmp_path, ["the processor aarch64 (here x86_64)", "numpy 1 (here 2)"])
    assert index.mixed(tmp_path) == ["numpy 1 (here 2)", "the processor aarch64 (here x86_64)"]


# The doctor on workers that people started: who would compute other data, and why.

FILES = {"tasks/asr/ctc.py": "1", "tasks/asr/fake.py": "1", "mine/beep.py": "1"}
RAN = Rehearsal((("the recogniser ctc", 0.26),), ())


def computing(rehearsal: Rehearsal = RAN, **changed: str) -> Computing:
    return Computing(OURS | changed, FILES, rehearsal)


def test_who_computes_other_data_is_told_with_what() -> None:
    edited = Computing({**OURS, likeness.CODE: "x"}, {**FILES, "tasks/asr/fake.py": "2"}, RAN)
    workers = {"a": computing(), "b": computing(numpy="1"), "c": edited}
    told = proofs.alike(workers, OURS, FILES, mixed=False)
    assert (told.ok, told.detail) == (
        False,
        "b has other numpy 1 (here 2.3.1); c has other uttermill's code (tasks/asr/fake.py): "
        "install there what is here, or set cluster.mixed: true",
    )
    told = proofs.alike(workers, OURS, FILES, mixed=True)
    assert told.ok
    assert told.detail.endswith(": allowed by cluster.mixed")
    workers["d"] = Computing({**OURS, likeness.WEIGHTS: "two"}, FILES, RAN)
    assert not proofs.alike(workers, OURS, FILES, mixed=True).ok
    assert proofs.alike({"a": computing()}, OURS, FILES, mixed=False).ok


def test_what_runs_on_a_good_clip_is_told() -> None:
    slower = Rehearsal((("the recogniser ctc", 0.51),), ())
    told = proofs.models({"a": computing(), "b": computing(slower)})
    assert (told.ok, told.detail) == (True, "run on a good clip: the recogniser ctc 0.5 s")
    broken = Rehearsal((), ("the recogniser ctc crashes",))
    told = proofs.models({"a": computing(), "b": computing(broken)})
    assert (told.ok, told.detail) == (False, "b: the recogniser ctc crashes")
