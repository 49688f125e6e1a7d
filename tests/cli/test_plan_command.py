"""`uttermill plan`, and `status` and `what-if`, which agree with it; without a cluster."""

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from rich import filesize

from tests.cli.test_commands import told
from tests.helpers import corpus, own_plugin
from uttermill.flows import checks, cli, settings
from uttermill.flows.cli import run_commands
from uttermill.flows.cli.show import runs as shown
from uttermill.flows.run import launch, plans, run_folder
from uttermill.tasks import pipeline
from uttermill.tasks.accounting import metrics
from uttermill.tasks.accounting.metrics import Place, Trace
from uttermill.tasks.base.errors import NothingLeft, TooManyFailed
from uttermill.tasks.base.schema import METRICS
from uttermill.tasks.insight.estimating import asked_apart
from uttermill.tasks.settings.job import Cost
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.shard_store.decision_log import Decision


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Settings of a run that has ended well."""
    return ended(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `file`, for tests that change nothing there."""
    return ended(tmp_path_factory.mktemp("kept"))


def ended(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in")
    prepared(path := written(tmp_path))
    return path


def written(home: Path, **changes: Any) -> Path:
    """Settings of a run over `home/in`, with others at their top."""
    data = {
        "sources": [{"kind": "folder", "path": str(home / "in"), "name": "c"}],
        "out": str(home / "out"), "shard": {"settle_seconds": 0},
        "transcribe": {"backend": {"use": "fake"}}, **changes,
    }  # fmt: skip
    path = home / "settings.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def prepared(path: Path, *sets: str) -> None:
    """A run in this process, with what it leaves in OUT/runs."""
    chosen = settings.read(str(path), [], None, sets)
    with run_folder.record(Path(chosen.out), chosen) as run:
        _, stages = pipeline.run_here(chosen.job())
        run.finish({"stages": stages})


def test_json_as_promised(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = told(capsys, "plan", str(kept), "--set", "resample.rate=24000")
    assert list(plan["stages"]) == list(corpus.STAGES)
    for entry in plan["stages"].values():
        assert set(entry) == {"compute", "reuse", "hours", "seconds", "because"}
    hours = sum(corpus.seconds_of(n) for n in range(10)) / 3600
    resample = plan["stages"]["resample"]
    assert (resample["compute"], resample["because"]) == (10, ["resample.rate"])
    assert resample["hours"] == plan["hours_again"] == pytest.approx(hours, rel=1e-3)
    assert plan["stages"]["filter"] == {
        "compute": 0, "reuse": 10, "hours": 0.0, "seconds": 0.0, "because": [],
    }  # fmt: skip
    assert plan["changes"] == [{"setting": "resample.rate", "before": 16000, "after": 24000}]
    assert plan["version"] == {"newest": "v0001", "clips": 10, "clips_then": 10, "new": True}
    assert plan["stages"]["package"]["seconds"] > 0, "by the last run"


def test_the_time_of_new_recordings_is_known_after_a_run(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The call that filters audio also resamples it, so no call had measured `resample` alone, and
    each plan said that the time is unknown until a run measures it. The wait for the first worker
    counted as time that each recording takes."""
    folder = next((file.parent / "out/runs").glob("r*"))
    seconds = sum(corpus.seconds_of(n) for n in range(10))
    cost = Cost("w", "here", 7, 40.0, 2.0, 2.0, 0, 0)
    rows = [metrics.row(Place("shard", "probe"), Trace(0.0, 1), cost)]
    for name, audio in {"filter": seconds, "resample": 0.0, "transcribe": seconds}.items():
        rows.append(metrics.row(Place(name, shard="shard-000000"), Trace(40.0, 1), cost, audio))
    metrics.save(pa.Table.from_pylist(rows, schema=METRICS), folder / metrics.NAME)
    summary = json.loads((folder / run_folder.SUMMARY).read_text())
    summary["stages"]["shard"]["seconds"] = 42.0
    (folder / run_folder.SUMMARY).write_text(json.dumps(summary))
    corpus.add(file.parent / "in", 11)
    plan = told(capsys, "plan", str(file))
    assert plan["stages"]["resample"]["seconds"] == 0.0
    assert plan["stages"]["shard"]["seconds"] == 0.2
    assert plan["seconds"] > 0
    alone = told(capsys, "plan", str(file), "--set", "resample.rate=24000")["stages"]["resample"]
    assert alone["seconds"] is None, "of what is there, no run has resampled"


def test_people_are_told_which_setting_costs_what(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plan", str(kept), "--set", "resample.rate=24000"]) == 0
    said = capsys.readouterr().out
    assert "resample.rate 16000 → 24000: resample, transcribe and package 10 items, 0.00 h" in said
    assert cli.main(["plan", str(kept)]) == 0
    assert "v0001 stays as it is, with 10 clips." in capsys.readouterr().out


def test_what_if_without_a_filter_that_recordings_failed_in(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refused to answer for the whole OUT, while `plan` and a run did."""
    poison = {"use": "tests.plugins.poison", "how": "item_error", "seconds": corpus.seconds_of(3)}
    out = str(file.parent / "fresh")
    prepared(file, f"filter.filters=[{{use: duration, min: 0.1}}, {poison}]", f"out={out}")
    without = "filter.filters=[{use: duration, min: 0.1}]"
    words = ("what-if", out, "--trust-plugins", "--set", without)
    answer = told(capsys, *words)
    assert (answer["then"]["items"], answer["unknown"]) == (9, 1)
    assert cli.main([*words]) == 0
    assert "Unknown: 1 recording that failed" in capsys.readouterr().out
    again = "filter.filters=[{use: duration, min: 0.1}, {use: loudness}]"
    refused = told(capsys, *words[:-1], again, code=2)["error"]
    assert refused.startswith("10 recordings have no stored measures")


def test_a_limit_of_a_filter_of_ones_own_is_a_limit(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part of its dotted name was sought on the shelf, which ended `plan`."""
    package = file.parent / "own_filters"
    package.mkdir()
    (package / "loud.py").write_text(own_plugin.copied("tasks/filters/peak.py"))
    monkeypatch.syspath_prepend(str(file.parent))
    own = "filter.filters=[{use: duration}, {use: own_filters.loud, max: -1}]"
    prepared(file, own)
    plan = told(
        capsys, "plan", str(file), "--set", own, "--set", "filter.filters.own_filters.loud.max=-2"
    )
    assert plan["changes"] == [
        {"setting": "filter.filters.own_filters.loud.max", "before": -1.0, "after": -2.0}
    ]
    assert plan["stages"]["filter"]["compute"] == 0


def test_removed_versions_are_made_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It said that the first version would hold no clip, of which the run packages all."""
    shutil.rmtree(file.parent / "out/datasets")
    plan = told(capsys, "plan", str(file))
    assert plan["stages"]["package"]["compute"] == plan["version"]["clips_then"] == 10
    assert plan["stages"]["transcribe"]["compute"] == 0


@pytest.mark.full
def test_status_agrees(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus.add(file.parent / "in", 11)
    plan = told(capsys, "plan", str(file))["stages"]
    status = told(capsys, "status", str(file.parent / "out"))["stages"]
    assert {n: (e["items_done"], e["items_to_compute"]) for n, e in status.items()} == {
        name: (entry["reuse"], entry["compute"]) for name, entry in plan.items()
    }
    assert status["transcribe"] == {"items_done": 10, "items_to_compute": 1}


@pytest.mark.nightly
def test_an_out_without_its_sources_still_answers(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status` and `what-if` said only that the source cannot be read."""
    out = str(file.parent / "out")
    tight = ["--set", "filter.filters.duration.max=1.1"]
    status, what_if = told(capsys, "status", out), told(capsys, "what-if", out, *tight)
    assert "unlisted" not in {*status, *what_if["plan"]}
    (file.parent / "in").rename(file.parent / "away")
    why = f"source {str(file.parent / 'in')!r} cannot be read (No such file or directory)"
    now = told(capsys, "status", out)
    assert now.pop("unlisted").startswith(why)
    assert now == status
    then = told(capsys, "what-if", out, *tight)
    assert then["plan"].pop("unlisted").startswith(why)
    assert then == what_if
    for words in (["status", out], ["what-if", out, *tight]):
        assert cli.main(words) == 0
        said = capsys.readouterr().out
        assert f"Counted as the last run found the sources, which cannot be listed: {why}" in said
    assert told(capsys, "plan", str(file), code=2)["error"].startswith(why)


def test_a_plan_of_nothing_makes_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.make(tmp_path / "in", 2)
    words = ["plan", "--source", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    plan = told(capsys, *words, "--set", "transcribe.backend.use=fake")
    assert plan["stages"]["filter"]["compute"] == 2
    assert plan["stages"]["filter"]["seconds"] is None, "no run has measured it"
    assert not (tmp_path / "out").exists()
    assert cli.main(["plan", "--source", str(tmp_path / "no"), "--out", "o"]) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "started"), [("y\n", True), ("n\n", False), ("", False)])
@pytest.mark.nightly
def test_run_asks_before_it_computes_much_again(
    file: Path, monkeypatch: pytest.MonkeyPatch, answer: str, started: bool
) -> None:
    monkeypatch.setattr(plans, "ASKS", 1.0)
    ran: list[Any] = []

    def started_with(chosen: Any) -> dict[str, Any]:
        ran.append(chosen)
        return {}

    monkeypatch.setattr(launch, "run", started_with)
    monkeypatch.setattr("uttermill.flows.cli.show.runs.run", lambda result: ())
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", said := Terminal())
    monkeypatch.setattr(sys, "stdout", printed := io.StringIO())
    words = ["run", str(file), "--set", "resample.rate=24000"]
    assert cli.main([*words, "--json"]) == (0 if started else 130)
    assert bool(ran) is started
    object_ = {} if started else {"error": "nothing was started", "exit": 130}
    assert json.loads(printed.getvalue()) == object_
    assert "h of audio again" in said.getvalue()
    ran.clear()
    assert cli.main([*words, "--yes"]) == 0
    assert ran
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))  # no terminal: nobody to ask
    assert cli.main(words) == 0


def test_three_lines_before_a_run(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    chosen = settings.read(str(kept), [], None, ["resample.rate=24000"])
    assert run_commands.agreed(chosen, False)
    lines = said.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("Plan: compute resample 10, transcribe 10, package 10 (0.00 h")
    assert lines[1] == "Because: resample.rate 16000 → 24000."
    assert lines[2].endswith("a new version will hold about 10 clips; v0001 has 10.")


def test_three_lines_before_the_first_run_read_no_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*args: object) -> None:
        raise AssertionError("a header was read")

    corpus.make(tmp_path / "in", 3)
    size = sum(path.stat().st_size for path in (tmp_path / "in").iterdir())
    chosen = settings.read(None, [str(tmp_path / "in")], str(tmp_path / "out"), [])
    assert "unread_bytes" not in plans.make(chosen)
    monkeypatch.setattr(asked_apart, "headers", read)
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    assert run_commands.agreed(chosen, False)
    assert said.getvalue().splitlines() == [
        f"Plan: compute shard 3, filter 3 ({filesize.decimal(size)}, not read yet); reuse nothing.",
        "Because: new or changed recordings.",
        "Time unknown; this makes the first version.",
    ]


@pytest.mark.nightly
def test_a_changed_setting_that_changes_no_clip_makes_a_version_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ["--set", "filter.filters.duration.max=29"]
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    chosen = settings.read(str(file), [], None, more[1:])
    assert run_commands.agreed(chosen, False)
    lines = said.getvalue().splitlines()
    assert (
        lines[0]
        == "Plan: nothing to compute; reuse "
        + ", ".join(f"{name} 10" for name in corpus.STAGES)
        + "."
    )
    assert lines[1].startswith("Because: filter.filters.duration.max ")
    assert lines[1].endswith(" → 29.0 (no clip changes).")
    assert lines[2].endswith("a new version will hold 10 clips; v0001 has 10.")
    assert cli.main(["run", str(file), *more]) == 0
    assert (file.parent / "out/datasets/latest").resolve().name == "v0002"


def test_after_an_estimate_of_everything_nothing_is_called_damaged() -> None:
    """An estimate publishes nothing, and a small corpus is its whole sample."""
    stage = {"compute": 0, "reuse": 3, "hours": 1.0, "because": []}
    result = {
        "stages": {"transcribe": stage, "package": {**stage, "compute": 3, "reuse": 0}},
        "changes": [], "seconds": 60.0, "removed": 0,
        "version": {"newest": None, "clips": 0, "clips_then": 3, "new": True},
    }  # fmt: skip
    assert [*shown.before_run(result)][1] == "Because: nothing has been published yet."


def test_an_estimate_tells_times_of_its_own_settings_only() -> None:
    result: dict[str, Any] = {
        "stages": {}, "changes": [], "seconds": None, "removed": 0,
        "version": {"newest": "v0001", "clips": 1, "clips_then": 1, "new": False},
    }  # fmt: skip
    assert "`uttermill estimate` with these settings" in str([*shown.plan(result)][-1])


def test_each_stage_has_its_own_amount() -> None:
    """A removed filter let in one clip, and `what-if` spoke of 31 to be transcribed."""
    because = {"because": ["filter.filters.peak"], "seconds": None}
    one, all_of_them = ({"compute": n, "hours": n / 100, **because} for n in (1, 31))
    result = {
        "stages": {"resample": one, "transcribe": one, "package": all_of_them},
        "changes": [{"setting": "filter.filters.peak", "before": "in use", "after": None}],
    }
    assert shown.causes(result) == [
        "filter.filters.peak removed: resample and transcribe 1 item, 0.01 h; package 31 items, "
        "0.31 h"
    ]


def test_settings_that_came_and_went_are_told_so() -> None:
    stage = {"compute": 1, "reuse": 0, "hours": 1.0, "seconds": 60.0}
    result = {
        "stages": {"filter": {**stage, "because": ["filter.filters.peak"]}},
        "changes": [{"setting": "filter.filters.peak", "before": None, "after": "in use"}],
        "seconds": 60.0, "removed": 2,
        "version": {"newest": "v0001", "clips": 1, "clips_then": 1, "new": False},
    }  # fmt: skip
    because = "Because: filter.filters.peak added; "
    assert f"{because}2 recordings have left their sources." in [*shown.before_run(result)]
    result["changes"] = [{"setting": "filter.filters.peak", "before": "in use", "after": None}]
    result["removed"], because = 1, "Because: filter.filters.peak removed; "
    assert f"{because}1 recording has left its source." in [*shown.before_run(result)]


@pytest.mark.nightly
def test_the_ledger_says_what_became_of_a_recording_under_another_name(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan told of no recording that had left, and the ledger of one, without a word."""
    home = file.parent / "in"
    (home / "r09.wav").rename(home / "renamed.wav")
    assert told(capsys, "plan", str(file))["removed"] == 0
    prepared(file)
    found = told(capsys, "ledger", str(file.parent / "out"))
    assert found["reasons"]["shard.source_removed"] == {"items": 1, "seconds": 0.0}
    assert "no longer in its source under that name" in found["meanings"]["source_removed"]


def test_after_an_estimate_alone_a_plan_names_what_changed(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """README plans another rate after `estimate`: the plan gave no cause."""
    out = file.parent / "out"
    shutil.rmtree(out / "datasets")
    for path in (out / "runs").glob(f"*/{run_folder.SETTINGS}"):
        path.rename(path.with_name(run_folder.ESTIMATE_SETTINGS))
    found = told(capsys, "plan", str(file), "--set", "resample.rate=24000")["stages"]
    assert found["resample"]["because"] == ["resample.rate"]
    assert found["filter"]["compute"] == 0


def test_what_its_source_calls_unusable_is_named_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of lines with other keys a plan said that it would make no clip of them, and no more."""
    corpus.make(tmp_path / "in", 2)
    rows = [{"number": n, "sentence": "some words"} for n in (0, 1)]
    listed = [{"audio": "in/r00.wav"}, *rows]
    corpus.jsonl(tmp_path / "list.jsonl", listed)
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "a"}
    found = told(capsys, "plan", str(written(tmp_path, sources=[source])))
    first = f"{tmp_path}/list.jsonl:2 (unreadable: it names no file: a path of audio is expected)"
    assert found["unusable"] == {"items": 2, "first": first}
    assert f"2 new recordings cannot be used: the first is {first}." in [*shown.plan(found)]


@pytest.mark.nightly
def test_broken_recordings_that_a_run_will_refuse_are_told_before_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan after a night that was refused said that the next one would make a version."""
    for number in range(5):
        (file.parent / f"in/z{number}.wav").write_bytes(b"this is no audio")
    with pytest.raises(TooManyFailed) as refused:
        prepared(file)
    refusal = told(capsys, "plan", str(file))["refusal"]
    assert refusal == str(refused.value)
    assert refusal.startswith("5 of 15 recordings failed, more than package.max_failed_fraction")
    spared = ["--set", "package.max_failed_fraction=1"]
    refusal = told(capsys, "plan", str(file), *spared)["refusal"]
    assert refusal.startswith("5 of 5 new recordings failed, more than package.max_new_failed_")
    with pytest.raises(TooManyFailed) as refused:
        prepared(file, spared[1])
    assert refusal == str(refused.value)
    spared += ["--set", "package.max_new_failed_fraction=1"]
    assert "refusal" not in told(capsys, "plan", str(file), *spared)
    for number in range(20, 60):  # new ones may be good
        corpus.add(file.parent / "in", number)
    assert "refusal" not in told(capsys, "plan", str(file))
    (file.parent / "in/z0.wav").write_bytes(b"this may be mended")
    assert "refusal" not in told(capsys, "plan", str(file))


def test_a_limit_that_is_taken_away_is_shown_as_it_is_set(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was shown as None, which `--set` takes for a text."""
    found = told(capsys, "plan", str(kept), "--set", "filter.filters.duration.max=null")
    because = "Because: filter.filters.duration.max 30.0 → null (no clip changes)."
    assert because in [*shown.before_run(found)]


def test_splits_that_are_drawn_again_are_told_of(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plan said that `false → true` changes no clip, and a run packaged others."""
    splits = ("--set", "package.splits={test: 0.5}")
    found = told(capsys, "plan", str(kept), *splits, "--set", "package.resplit=true")
    said = " ".join(map(str, shown.before_run(found)))
    assert "package.resplit: the splits will be drawn again" in said


def test_what_the_checks_warn_of_is_said_once(kept: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The look before the run said it, and the run again."""
    wanted = ["package.publish=[words]", "package.formats=[kaldi]"]
    chosen = settings.read(str(kept), [], None, wanted)
    assert run_commands.agreed(chosen, True)
    checks.check(chosen)
    said = [r.getMessage() for r in caplog.records if "has no field for words" in r.getMessage()]
    assert len(said) == 1


@pytest.mark.nightly
def test_a_plan_that_leaves_no_clip_says_that_the_run_will_refuse(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that a limit that drops every clip changes none."""
    none = ["--set", "filter.filters.duration.max=0.1"]
    plan = told(capsys, "plan", str(file), *none)
    assert plan["version"] == {"newest": "v0001", "clips": 10, "clips_then": 0, "new": True}
    assert cli.main(["what-if", str(file.parent / "out"), *none]) == 0
    assert f"A run will refuse to publish: {plan['refusal']}." in capsys.readouterr().out
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    assert run_commands.agreed(settings.read(str(file), [], None, none[1:]), False)
    lines = said.getvalue().splitlines()
    assert lines[1] == "Because: filter.filters.duration.max 30.0 → 0.1."
    assert lines[2].endswith("a new version would hold 0 clips; v0001 has 10.")
    assert lines[3] == f"A run will refuse to publish: {plan['refusal']}."
    with pytest.raises(NothingLeft, match=re.escape(plan["refusal"])):
        prepared(file, none[1])
    shutil.rmtree(file.parent / "out/datasets")
    assert told(capsys, "plan", str(file), *none)["refusal"] == plan["refusal"]
    assert "refusal" not in told(capsys, "plan", str(file), "--set", "resample.rate=8000")


@pytest.mark.nightly
def test_a_plan_without_a_recogniser_or_texts_says_that_the_run_will_refuse(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It planned for clips that the rule `empty_text` drops, each of them."""
    for made in ("datasets", "manifests", "runs", "audio"):
        shutil.rmtree(file.parent / "out" / made)
    none = "transcribe.backend={use: none}"
    for _ in range(2):  # before a run, and after one
        plan = told(capsys, "plan", str(file), "--set", none)
        assert plan["version"]["clips_then"] == plan["stages"]["package"]["compute"] == 0
        assert plan["refusal"].endswith(
            "; without a recogniser (transcribe.backend) only a source's own texts pass "
            "empty_text: name these (`uttermill plan` says what each source was taken for), choose "
            "a recogniser, or set transcribe.verdicts: [] to package clips without text"
        )
        with pytest.raises(NothingLeft, match=re.escape(plan["refusal"])):
            prepared(file, none)
    without = told(capsys, "plan", str(file), "--set", none, "--set", "transcribe.verdicts=[]")
    assert "refusal" not in without
    assert without["version"]["clips_then"] == 10
    (file.parent / "in/r03.txt").write_text("one text is enough")
    assert "refusal" not in told(capsys, "plan", str(file), "--set", none)
    prepared(file, none)


def test_another_speaker_alone_makes_a_version_and_is_the_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.make(tmp_path / "in/ann", 2)
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}
    path = written(tmp_path, sources=[source])
    for speakers in ("ab", "ac"):
        lines = [
            json.dumps({"wav": f"in/ann/r0{number}.wav", "txt": "so", "speaker": speaker})
            for number, speaker in enumerate(speakers)
        ]
        (tmp_path / "list.jsonl").write_text("\n".join(lines))
        if speakers == "ab":
            prepared(path)
    plan = told(capsys, "plan", str(path))
    assert plan["redescribed"] == 1
    assert plan["version"] == {"newest": "v0001", "clips": 2, "clips_then": 2, "new": True}
    said = "1 clip of v0001 has another text, speaker or label now"
    assert f"{said}." in [*shown.plan(plan)]
    assert [*shown.before_run(plan)][1] == f"Because: {said}."
    prepared(path)
    assert (tmp_path / "out/datasets/v0002").is_dir()
    assert "redescribed" not in told(capsys, "plan", str(path))


def test_an_unknown_reason_is_answered_with_those_that_exist(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(file.parent / "out")
    prepared(file, "filter.filters.duration.min=1.0")
    assert told(capsys, "ledger", out, "--reason", "too_short")["items"]
    capsys.readouterr()
    for flags in (["--json"], ["--csv"], []):
        assert cli.main(["ledger", out, "--reason", "foo", *flags]) == 0
        shown = capsys.readouterr()
        assert (
            "No item has the reason 'foo'; the reasons here are filter.too_short, "
            "package.packaged.\n"
        ) in shown.err
        assert "foo" not in shown.out
    assert cli.main(["ledger", out, "--reason", "too_short"]) == 0
    assert "No item" not in capsys.readouterr().err
    assert cli.main(["ledger", out, "--dataset", "bar"]) == 0
    known = "No item is of the dataset 'bar'; the datasets here are c.\n"
    assert known in capsys.readouterr().err


@pytest.mark.nightly
def test_decisions_by_people_are_a_cause(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = file.parent / "out"
    short = ["filter.filters.duration.min=0.5"]
    corpus.add(file.parent / "in", 0, seed=99, name="short.wav")
    prepared(file, *short)
    ledger = corpus.ledger(out / "datasets/v0002")
    ids = {Path(row["recording"]).stem: row["utterance"] for row in ledger}

    def foreseen(decision: str, name: str, **more: Any) -> dict[str, Any]:
        """The plan after a person decided; then a run."""
        decision_log.append(out, [Decision(ids[name], decision, **more)])
        plan = told(capsys, "plan", str(file), "--set", *short)
        assert plan["version"]["new"]
        prepared(file, *short)
        summary = json.loads((run_folder.newest(out) / run_folder.SUMMARY).read_text())
        assert {name: entry["compute"] for name, entry in plan["stages"].items()} == {
            name: entry["items_computed"] for name, entry in summary["stages"].items()
        }
        return plan

    kept = foreseen("keep", "short")
    assert kept["changes"] == [{"setting": "reviews", "before": "none", "after": "1 keep"}]
    causes = {name: entry["because"] for name, entry in kept["stages"].items()}
    assert causes == {
        "shard": [], "filter": [],
        "resample": ["reviews"], "transcribe": ["reviews"], "package": ["reviews"],
    }  # fmt: skip
    dropped = foreseen("drop", "short")
    assert dropped["changes"][0]["after"] == "1 drop"
    worded = foreseen("retext", "r04", text="the right  words")
    assert worded["stages"]["package"]["because"] == ["reviews"]
    other = foreseen("retext", "r04", text="other words")
    assert other["changes"][0]["after"] == "1 drop, 1 retext, others than before"
    undone = foreseen("undo", "r04")
    assert undone["stages"]["package"]["because"] == ["reviews"]
    assert told(capsys, "plan", str(file), "--set", *short)["changes"] == []
    decision_log.append(out, [Decision(ids["r05"], "drop")])
    assert cli.main(["plan", str(file), "--set", *short]) == 0
    assert "reviews 1 drop → 2 drop: package 8 items" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_plan_names_what_it_cannot_read_and_says_that_the_rest_is_unheard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.make(tmp_path / "in", 2)
    (tmp_path / "in" / "bad.wav").write_bytes(b"no audio at all, whatever its name says")
    words = ["plan", "--source", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "1 new recording cannot be used: " in said
    assert "bad.wav (its header cannot be read)." in said
    unheard = "New recordings count as good: only a run decodes and judges them."
    assert unheard in said.splitlines()
    assert cli.main(["run", *words[1:], "--set", "transcribe.backend.use=fake"]) == 0
    capsys.readouterr()
    assert cli.main([*words, "--set", "transcribe.backend.use=fake"]) == 0
    assert unheard not in capsys.readouterr().out, "there is nothing new"
