"""Standard streams that are closed, full, or whose readers have ended: neither a command's work nor
its exit code depends on them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.helpers import tiers
from uttermill.flows import cli

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
