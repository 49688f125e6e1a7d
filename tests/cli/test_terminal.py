"""Names that act on a terminal: shown as escapes where people read, exact where programs do."""

import csv
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, tiers
from uttermill.flows import cli
from uttermill.tasks.base.logs import log, sent_to
from uttermill.tasks.base.masking import escaped, json_line

#: A colour, a title, a line break, a C1 code, turned directions, markup of rich and spreadsheets.
NAMES = (
    "\x1b[31mred", "\x1b]0;title\x07", "two\nlines", "\x9b2J", "\u202egnp.wav", "[red]x",
    "[link=x]y", "=cmd|' -C calc'!A0", "\u2066i\u2069", "bell\x07", "\u2028",
)  # fmt: skip
RAW = "\x1b\x07\x9b\u202e\u2066\u2069\u2028\r"


@dataclass
class Made:
    out: Path
    said: str  # by the run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, shared_cluster: dict[str, Any]) -> Made:
    """By a run over recordings and other files with such names, in a folder with another."""
    home = tmp_path_factory.mktemp("names") / "\x1b[1mhome"
    corpus.make(home / "in", 2)
    for name in NAMES:
        (home / "in" / f"{name}.wav").parent.mkdir(parents=True, exist_ok=True)
        (home / "in" / f"{name}.wav").write_text(f"no audio: {name}")
        (home / "in" / f"{name}.txt").write_text("x")
    there = [f"cluster.{key}={value}" for key, value in shared_cluster.items()]
    sets = ["transcribe.backend.use=fake", "history=none", "shard.settle_seconds=0", *there]
    words = ["run", "--source", str(home / "in"), "--out", str(home / "out")]
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        assert cli.main([*words, *(word for each in sets for word in ("--set", each))]) == 0
    return Made(home / "out", said.getvalue())


@pytest.fixture
def out(made: Made) -> Path:
    return made.out


@contextmanager
def terminal(there: bool = True) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "dumb")  # rich uses no codes of its own there
        patch.setattr(sys.stdout, "isatty", lambda: there)
        yield


def ran(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    capsys.readouterr()
    assert cli.main([*map(str, words)]) == 0
    return capsys.readouterr().out


@pytest.mark.full
def test_a_run_shows_and_logs_escapes(made: Made) -> None:
    [log_file] = made.out.glob("runs/*/run.log")
    for said in (made.said, log_file.read_text()):
        assert not set(RAW) & set(said)
    assert "\\x1b[31mred" in made.said
    assert "[red]x" in made.said


COMMANDS = (
    ["status"], ["ledger"], ["ledger", "--items"], ["report"], ["verify"], ["plan"],
    ["what-if", "--set", "filter.filters=[]"], ["prune"], ["review", "export"],
    ["ledger", "--reason", "\x1b[31m"], ["list", "--split", "\x1b[31m"], ["list", "--\x1b[31m"],
)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("words", "there"), tiers.covering(COMMANDS, [True, False]), ids=str)
def test_nothing_raw_reaches_people(
    words: list[str], there: bool, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["--source", str(out.parent / "in"), "--out", str(out)]
    with terminal(there), suppress(SystemExit):  # of an option that is none
        cli.main([words[0], *(job if words == ["plan"] else [*words[1:], str(out)])])
    said = capsys.readouterr()
    assert said.out + said.err
    assert not set(RAW) & set(said.out + said.err)


@pytest.mark.full
def test_a_csv_is_exact_for_programs(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And no cell begins with what a spreadsheet computes."""
    rows = [*csv.DictReader(io.StringIO(ran(capsys, "ledger", out, "--csv"), newline=""))]
    names = {Path(row["source_path"]).name for row in rows}
    assert {f"{name}{end}" for name in NAMES for end in (".wav", ".txt")} <= names
    text = [cell or "" for row in rows for cell in row.values()]
    assert [cell for cell in text if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == []


@pytest.mark.full
def test_a_csv_at_a_terminal_has_escapes(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with terminal():
        said = ran(capsys, "ledger", out, "--csv")
    assert not set(RAW) & set(said)
    rows = [*csv.DictReader(io.StringIO(said))]
    assert {escaped(f"{name}.wav") for name in NAMES} <= {Path(r["source_path"]).name for r in rows}


@pytest.mark.full
def test_json_is_exact_and_harmless(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ran(capsys, "ledger", out, "--items", "--json")
    assert not set(RAW) & set(said)
    names = {Path(row["source_path"]).name for row in json.loads(said)["items"]}
    assert {f"{name}.wav" for name in NAMES} <= names
    assert json.loads(json_line({"a": RAW, "ü": "\ud800"})) == {"a": RAW, "ü": "\ud800"}


@pytest.mark.full
def test_a_list_is_exact_for_programs(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Path(ran(capsys, "list", out).splitlines()[0]).is_file()
    with terminal():
        assert "\\x1b[1mhome" in ran(capsys, "list", out)


@pytest.mark.full
@pytest.mark.parametrize("prefix", ["a\nb", "a\rb"])
def test_a_list_has_one_path_a_line(
    prefix: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["list", str(out), "--prefix", prefix]) == 2
    assert "use --json" in capsys.readouterr().err
    assert json.loads(ran(capsys, "list", out, "--prefix", prefix, "--json"))["paths"]


def test_a_traceback_in_a_log_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    with sent_to(logging.StreamHandler(stream), "%(message)s"):
        try:
            raise ValueError("\x1b[2J\nhttps://u:hunter2@h")
        except ValueError:
            log.exception("a bug at %s", "\u202e")
    said = stream.getvalue()
    assert len(said.splitlines()) > 4
    assert not set(RAW) & set(said)
    assert "hunter2" not in said


def test_a_bug_tells_no_secret(tmp_path: Path) -> None:
    code = (
        "import sys; from uttermill.flows.cli import command_line as c; sys.argv[1:] = ['schema']\n"
        "def bug(args): raise ValueError('\\x1b[2J https://u:hunter2@h/x?t=hunter2')\n"
        "c.COMMANDS['schema'] = bug; c.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ValueError" in done.stderr
    assert "\x1b" not in done.stderr
    assert "hunter2" not in done.stderr.splitlines()[-1]


def test_letters_of_all_scripts_stay() -> None:
    for text in ("广州 👩‍👩‍👧", "עברית\u200f", "tab", "é", "می\u200cخواهم"):
        assert escaped(text) == text
    assert escaped("a\tb\n\ud800") == "a\\tb\\n\\ud800"


# Standard streams that are closed, full, or whose readers have ended: neither a command's work nor
# its exit code depends on them.


#: What is done to a stream, by the shell's word for it; none: its reader has ended.
CLOSED, FULL, UNREAD = ">&-", ">/dev/full", ""


def command(words: str, stream: int, state: str, buffered: bool) -> tuple[int, str]:
    """Exit code, and what the other stream said."""
    whole = f"exec {sys.executable} -m uttermill.flows.cli {words} {stream if state else ''}{state}"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    environment |= {} if buffered else {"PYTHONUNBUFFERED": "1"}
    with unread() as pipe:
        out, err = (pipe, subprocess.PIPE) if stream == 1 else (subprocess.PIPE, pipe)
        done = subprocess.run(
            ["bash", "-c", whole], env=environment, stdout=out, stderr=err, text=True
        )
    return done.returncode, done.stderr if stream == 1 else done.stdout


@contextmanager
def unread() -> Iterator[int]:
    """A pipe whose reader has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


STATES = [
    ("--version", UNREAD, 0),
    ("--version", FULL, 1),
    ("run --help", FULL, 1),
    ("run --help", UNREAD, 0),
    ("plan nope.yaml --json", UNREAD, 2),
    ("completion bash", UNREAD, 0),
    ("schema", UNREAD, 0),
    ("completion bash", CLOSED, 0),
    ("completion bash", FULL, 1),
    ("plan nope.yaml --json", FULL, 2),
]


@pytest.mark.parametrize("case", tiers.few(STATES, *STATES[:3]))
@pytest.mark.parametrize("buffered", [True, tiers.nightly(False)])
def test_standard_output(case: tuple[str, str, int], buffered: bool) -> None:
    words, state, code = case
    found, said = command(words, 1, state, buffered)
    assert found == code
    assert said.count("\n") == (code > 0), said
    if (state, code) == (FULL, 1):
        assert said.startswith("uttermill: no space left on standard output ("), said


@pytest.mark.parametrize("state", [UNREAD, CLOSED, FULL])
@pytest.mark.nightly
def test_standard_error(state: str) -> None:
    code, said = command("plan nope.yaml --json", 2, state, buffered=True)
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith('{"error": ')


def test_no_file_gets_the_number_of_a_closed_stream() -> None:
    code = (
        "import os; from uttermill.flows.cli.process_setup import _open_closed as o; "
        "o(); print(os.dup(0))"
    )
    whole = f"{sys.executable} -c '{code}' <&- 2>&-"
    done = subprocess.run(["bash", "-c", whole], stdout=subprocess.PIPE, text=True)
    assert int(done.stdout) > 2


def test_results_in_a_pipe_are_plain_and_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other programs read them: each row on one line, however narrow the terminal would be."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert cli.main(["plugins", "filters.duration"]) == 0
    told = capsys.readouterr()
    assert "\x1b" not in told.out
    assert any(line.split()[:3] == ["max", "s", "30.0"] for line in told.out.splitlines()), told.out
    assert not told.err
