"""What people see: every name as it is, whatever characters it holds."""

import io
import json
import logging
import shlex
from typing import Any

import pytest
from rich.console import Console

from tests.cli.test_plan_command import Terminal
from uttermill.flows import cli, formatting, settings
from uttermill.flows.cli import doctor, setting_listing
from uttermill.flows.cli.show import results, runs, tables
from uttermill.flows.cli.show.tables import print_to
from uttermill.flows.cluster.proofs import Finding
from uttermill.flows.progress import Progress
from uttermill.flows.run.ledger_items import COLUMNS
from uttermill.flows.server.server import quiet
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks.settings import PackageSettings


def test_names_with_brackets_are_shown_as_they_are() -> None:
    out = "/data/[bold]x[/b]"
    status = {"out": out, "stages": {}, "shards": 0, "dataset": f"{out}/v0001"}
    told = said(results.status, status)
    assert told.count(out) == 2


def test_the_result_of_a_run_names_its_dataset() -> None:
    nothing = {"recordings": {"in": 0}, "utterances": {"packaged": 0}, "reasons": {}}
    told = said(
        runs.run,
        {
            **nothing, "seconds": {"in": 0.0, "packaged": 0.0}, "stages": {}, "scored": 0,
            "new": {"recordings": 0}, "new_version": True,
            "deaths": {}, "dataset": "/data/[/b]/v0001", "wall_seconds": 1.0,
            "tars": {"tars": 3, "written": 1, "linked": 2, "readers": 4,
                     "worst_reader_extra_hours": 0.25},
            "reader_drops": [{"warning": "nemo: it would drop 3 of 9 [clips]"}],
        },
    )  # fmt: skip
    assert "Wrote 1 output shard; 2 output shards of the last version had not changed." in told
    assert "Of 4 readers (package.readers), the one with most audio gets 15.0 min more" in told
    assert "/data/[/b]/v0001" in told
    assert "warning: nemo: it would drop 3 of 9 [clips]" in told


def test_tars_are_told_plainly() -> None:
    one = {"tars": 1, "written": 1, "linked": 0, "readers": 1, "worst_reader_extra_hours": 0.0}
    assert [*runs._tars(one, True)] == ["Wrote 1 output shard."]
    assert [*runs._tars(one, False)] == [], "nothing was written"


MARKUP = "[/en]"


def said(show_it: Any, result: Any, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_to(console, show_it(result))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_ledger_of_names_that_look_like_markup() -> None:
    cells = {"outcome": "dropped", "reason": MARKUP, "items": 1, "hours": 1.0}
    told = said(
        results.ledger,
        {
            "dataset": None, "recordings": {"in": 1}, "utterances": {"packaged": 0},
            "seconds": {"in": 1.0, "packaged": 0.0},
            "reasons": {f"filter.{MARKUP}": {"items": 1, "seconds": 1.0}}, "ignored": {MARKUP: 1},
            "by_dataset": [{"dataset": MARKUP, **cells}],
            "by_language": [{"language": MARKUP, **cells}], "meanings": {MARKUP: MARKUP},
        },
    )  # fmt: skip
    assert told.count(MARKUP) == 8


def test_other_results_of_names_that_look_like_markup() -> None:
    row = dict.fromkeys(COLUMNS) | {"source_path": MARKUP, "detail": MARKUP, "reason": MARKUP}
    assert said(results.items, {"items": [row]}).count(MARKUP) == 3
    assert MARKUP in said(results.report, {"report": MARKUP})
    assert MARKUP in said(results.verify, {"ok": False, "faults": [MARKUP]})
    shelf = {MARKUP: {MARKUP: {"about": MARKUP, "settings": [MARKUP]}}}
    assert said(results.shelves, shelf).count(MARKUP) == 4
    column = {"column": MARKUP, "type": MARKUP, "unit": MARKUP, "meaning": MARKUP}
    assert said(results.columns, {MARKUP: [column]}).count(MARKUP) == 5
    findings = [Finding(MARKUP, True, MARKUP), Finding("b", False, MARKUP)]
    assert said(doctor.show, findings).count(MARKUP) == 3


@pytest.mark.parametrize(
    ("items", "told"),
    [(1, "+1 item, "), (0, "+0 items, "), (-1, "-1 item, "), (-20, "-20 items, ")],
)
def test_a_difference_of_one_is_one_item(items: int, told: str) -> None:
    side = {"items": 5, "hours": 1.0, "not_yet_transcribed": {"items": 0}}
    change = {"items": items, "hours": 0.5}
    plan: dict[str, Any] = {"stages": {}, "changes": []}
    lines = said(
        results.what_if, {"now": side, "then": side, "difference": change, "plan": plan}
    ).splitlines()
    assert f"{told}+0.500 hours" in lines


@pytest.mark.parametrize("changed", [False, True])
def test_a_limit_that_changes_no_clip_is_told_why(changed: bool) -> None:
    """One was loosened that had rejected a clip, and what-if said +0 items and no more."""
    side = {"items": 5, "hours": 1.0, "not_yet_transcribed": {"items": 0}}
    plan: dict[str, Any] = {
        "stages": {},
        "changes": [{"setting": "a.b", "before": 1.0, "after": 0.1}] if changed else [],
    }
    change = {"items": 0, "hours": 0.0}
    told = said(results.what_if, {"now": side, "then": side, "difference": change, "plan": plan})
    assert ("others may reject it, too" in told) == changed


def test_one_reference_is_one_utterance() -> None:
    told = formatting.error_rates({"wer": 0.5, "cer": 0.25, "scored": 1})
    assert told == "WER 50.0 %, CER 25.0 % on 1 packaged utterance with references."


def test_a_narrow_terminal_cuts_no_name() -> None:
    """Ends were `…`, also in files, where a line has 80 letters."""
    name = "a_name_that_is_longer_than_the_column_of_the_terminal"
    column = {"column": name, "type": "double", "unit": "s", "meaning": "how long it is"}
    told = said(results.columns, {"utterances": [column]}, width=40)
    assert "".join(line.split(" ")[0] for line in told.splitlines()[2:]).endswith(name)
    status = {"out": f"/{name}", "stages": {}, "shards": 1, "dataset": None}
    assert said(results.status, status, width=20).startswith(f"/{name}\n")


def test_a_newline_in_a_name_breaks_no_line() -> None:
    row = dict.fromkeys(COLUMNS) | {
        "source_path": "/in/new\nline\u2028é\x1b.xyz", "outcome": "left_aside", "stage": "shard",
        "reason": "extension", "detail": "two\r\nlines",
    }  # fmt: skip
    told = said(results.items, {"items": [row]})
    assert told.split("\n") == [
        r"/in/new\nline\u2028é\x1b.xyz  left_aside shard.extension: two\r\nlines", "1 item.", "",
    ]  # fmt: skip


def test_a_log_line_that_looks_like_markup_passes_the_bars() -> None:
    stream = Terminal()
    log = logging.getLogger("uttermill")
    handler = logging.StreamHandler(stream)
    log.addHandler(handler)
    try:
        with quiet(), Progress(stream=stream) as progress:
            progress.start("filter", 10.0)
            assert progress._bars is not None
            progress._bars.console.print(f"as Prefect's handler does: {MARKUP}")
            log.warning("a file is named %s", MARKUP)
    finally:
        log.removeHandler(handler)
    assert stream.getvalue().count(MARKUP) == 2


def test_one_is_no_plural() -> None:
    row = {"source_path": "a.wav", "start": None, "track": None, "channel": None,
           "outcome": "failed", "stage": "shard", "reason": "empty", "value": None,
           "detail": ""}  # fmt: skip
    assert said(results.items, {"items": [row]}).endswith("1 item.\n")
    stored = {"imported": 1, "by_decision": {}, "already_there": 0, "unknown_count": 0}
    assert said(results.imported, stored).startswith("1 decision stored.")
    unknown = {**stored, "unknown_count": 1, "unknown": ["u-1"]}
    assert said(results.imported, unknown).endswith("does not hold 1 utterance: u-1.\n")


def test_the_ledger_before_the_first_version_says_so() -> None:
    result: dict[str, Any] = {
        "dataset": None, "recordings": {"in": 1}, "utterances": {"packaged": 0}, "reasons": {},
        "seconds": {"in": 0.0, "packaged": 0.0}, "by_dataset": [], "by_language": [],
        "meanings": {},
    }  # fmt: skip
    assert said(results.ledger, result).startswith("No version holds this")
    assert "No version" not in said(results.ledger, {**result, "dataset": "/data/v0001"})


def test_texts_that_were_read_are_not_called_skipped() -> None:
    seconds = {"in": 1.0, "packaged": 1.0}
    ignored = {"read_as_text": 4, "extension": 1, "read_as_turns": 2}
    result = {"recordings": {"in": 1}, "utterances": {"packaged": 1}, "seconds": seconds}
    lines = [*tables.funnel({**result, "reasons": {}, "ignored": ignored})][1:]
    names = "`uttermill ledger OUT --items` names them."
    assert lines == [
        f"Read beside the recordings: 4 files (read_as_text), 2 files (read_as_turns); {names}",
        f"Skipped (not used as recordings): 1 file (extension); {names}",
    ]


def test_a_plan_says_what_is_skipped() -> None:
    """A list may name a part of a folder's audio."""
    plan: dict[str, Any] = {"ignored": {"not_listed": 30}, "changes": []}
    version = {"newest": None, "clips": 1, "clips_then": 0, "new": True}
    shown = said(runs.plan, {**plan, "stages": {}, "removed": 0, "seconds": 0, "version": version})
    assert "Skipped (not used as recordings): 30 files (not_listed)." in shown


# `uttermill settings`: every setting of a run with unit, default, meaning and an example.


LEAST = {"sources": [{"kind": "folder", "path": "in"}], "out": "out"}
EVERY = [entry for held in setting_listing.listing(None).values() for entry in held]


def test_every_setting_of_every_stage_is_listed() -> None:
    names = {entry["setting"] for entry in EVERY}
    for group, field in PrepareSettings.model_fields.items():
        inner = getattr(type(field.default), "model_fields", {})
        stage = {f"{group}.{key}" for key in inner if "use" not in inner}
        assert stage <= names if stage else group in names
    assert {"sources.licence", "transcribe.llm_text.timeout", "cluster.tls.key"} <= names
    assert len(names) == len(EVERY)


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: str(entry["setting"]))
def test_an_example_is_taken_and_changes_the_setting(entry: dict[str, Any]) -> None:
    assert entry["meaning"], entry
    assert entry["example"].startswith("--set "), "EXAMPLES has none"
    sets = shlex.split(entry["example"])[1::2]
    kind = "address" if entry["setting"] == "cluster.address" else None
    data: dict[str, Any] = {"cluster": {"kind": kind}} if kind else {}
    data |= json.loads(json.dumps(LEAST))
    settings.assign(data, sets)
    changed = settings.parse(data)
    settings.read(None, ["in"], "out", sets)  # as the command line does, plug-ins included
    assert changed.model_dump(mode="json") != settings.parse(LEAST).model_dump(mode="json")


def test_units_and_defaults() -> None:
    entries = {entry["setting"]: entry for entry in EVERY}
    assert entries["package.tar_hours"]["unit"] == "h"
    assert entries["package.max_failed_fraction"]["unit"] == "0 to 1"
    assert entries["cluster.item_timeout"]["unit"] == "s"
    assert entries["resample.rate"]["unit"] == "Hz"
    assert entries["package.keep"]["default"] == PackageSettings().keep
    assert entries["filter.segmenter"]["default"] == {"use": "auto"}
    assert entries["out"]["required"]


def test_the_command_lists_a_stage_or_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["settings", "package", "--json"]) == 0
    (stage,) = json.loads(capsys.readouterr().out).values()
    assert {entry["setting"].split(".")[0] for entry in stage} == {"package"}
    assert cli.main(["settings", "package.splits"]) == 0
    text = capsys.readouterr().out
    assert "--set 'package.splits={dev: 0.05" in text
    assert "package.seed" not in text
    assert cli.main(["settings", "package.split"]) == 2
    assert "package has package.formats, package.audio" in capsys.readouterr().err
    assert cli.main(["settings", "pack"]) == 2
    assert "known: sources, out, speakers, shard" in capsys.readouterr().err


def test_plugins_says_where_the_settings_of_stages_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plugins", "package"]) == 2
    assert "`uttermill settings package` prints the settings of a stage" in capsys.readouterr().err
    assert cli.main(["plugins"]) == 0
    assert "Settings of stages: uttermill settings." in capsys.readouterr().out
