"""The doctor on workers that people started: who would compute other data, and why."""

from uttermill.flows.cluster import proofs
from uttermill.flows.cluster.proofs import Computing
from uttermill.tasks.runs import likeness
from uttermill.tasks.stages.isolate import Rehearsal

OURS = {likeness.CODE: "a", likeness.PLUGINS: "b", "numpy": "2", "the processor": "x86_64"}
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
        "b has other numpy 1 (here 2); c has other uttermill's code (tasks/asr/fake.py): "
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
