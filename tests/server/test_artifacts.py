"""The words of a run's artifact: numbers that add up, names that are not markup, no secrets."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from prefect.utilities.names import generate_slug

from uttermill.flows.progress import Standing
from uttermill.flows.server import history
from uttermill.flows.server.artifacts import STOOD, WORST, escaped, failure, markdown
from uttermill.tasks.base.errors import ConfigError, OutLocked, RunError

OUT = Path("/data/prepared")
STAGES = (
    Standing("shard", 7200.0, 7200.0, 3600.0, 10.0, True),
    Standing("filter", 7200.0, 1800.0, 0.0, 60.0, False),
    Standing("transcribe", 7200.0, 900.0, 0.0, 90.0, False),
    Standing("resample", 7200.0, 0.0, 0.0, 90.0, False),
)


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def result(**reasons: float) -> dict[str, Any]:
    lost = sum(reasons.values())
    return {
        "dataset": "/data/prepared/datasets/v0002", "new": {"recordings": 0}, "new_version": True,
        "wall_seconds": 90.0,
        "seconds": {"in": 3600.0, "packaged": 3600.0 - lost},
        "recordings": {"in": 12}, "utterances": {"packaged": 9},
        "reasons": {f"filter.{n}": {"items": 1, "seconds": s} for n, s in reasons.items()},
        "scored": 4, "wer": 0.125, "cer": 0.05,
    }  # fmt: skip


def test_a_run_that_goes_on() -> None:
    text = markdown(OUT, 100.0, STAGES)
    # 6300 s of audio are left for transcribe at 10 x real time; filter needs 3:00.
    assert "**Running for 1:40**, about 10:30 left." in text
    assert STOOD in text
    shown = {row[0]: row[1:] for row in rows(text)}
    assert shown["shard"] == ["2.00 h", "2.00 h", "1.00 h", "360 x real time", "done"]
    assert shown["filter"] == ["0.500 h", "2.00 h", "", "30 x real time", "3:00"]
    assert shown["resample"] == ["0.000 h", "2.00 h", "", "", ""]


def test_nothing_is_known_yet() -> None:
    text = markdown(OUT, 3.0)
    assert text.startswith("**Running for 0:03**.")
    assert STOOD not in text


def test_a_run_that_is_done() -> None:
    many = {f"r{n:02d}": float(n) for n in range(1, WORST + 3)}
    report = OUT / "runs/x/report.html"
    text = markdown(OUT, 90.0, STAGES, result(**many), report, "http://ui/run/1")
    assert "**Done: published v0002**, kept 0.978 h of 1.00 h in 1:30 (40 x real time)." in text
    table = rows(text)[2:]
    assert table[0][:4] == ["recordings in", "12", "1.000", "100.0 %"]
    assert [row[0] for row in table[1:3]] == ["− filter.r12", "− filter.r11"]  # the worst first
    assert table[-2][:3] == ["− 2 more reasons", "2", "0.001"]
    assert table[-1][:4] == ["**packaged**", "9", "0.978", "97.8 %"]
    assert len(table) == WORST + 3
    assert "WER 12.5 %, CER 5.0 % on 4 packaged" in text
    for place in (OUT, OUT / "runs/x/report.html", "uttermill ledger /data/prepared"):
        assert f"`{place}`" in text
    assert "(http://ui/run/1)" in text
    assert STOOD not in text


def test_codes_say_what_they_mean() -> None:
    table = rows(markdown(OUT, 1.0, (), result(unreadable=2.0)))
    assert table[3] == ["− filter.unreadable", "1", "0.001", "0.1 %", "no decoder opens it"]


def test_what_a_reader_would_drop_is_a_warning() -> None:
    drop = {"warning": "wenet: it would drop 3 of 9 clips (token_max_length 200)"}
    text = markdown(OUT, 1.0, (), {**result(), "reader_drops": [drop]})
    assert escaped(drop["warning"]) in text
    assert text.count("**Warning.**") == 1
    assert "Warning" not in markdown(OUT, 1.0, (), result())


def test_nothing_new() -> None:
    text = markdown(OUT, 1.0, (), {**result(), "new_version": False, "scored": 0})
    assert text.startswith("**Done: nothing new, v0002 stays**")
    assert "WER" not in text


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("failed", RunError("the disk is full"), ("> the disk is full", "Fix the cause", "Retry")),
        ("failed", ConfigError("no such rate"), ("> no such rate", "start a new run")),
        ("failed", OutLocked("another run holds it"), ("Wait until the other run", "Retry")),
        ("failed", KeyError("x"), ("> KeyError: 'x'", "run.log")),
        ("crashed", "Flow run process exited", ("## The run crashed", "out of memory", "Retry")),
        ("was cancelled", None, ("## The run was cancelled", "Retry")),
    ],
)
def test_failures(what: str, error: object, words: tuple[str, ...]) -> None:
    before = markdown(OUT, 100.0, STAGES)
    text = failure(what, error, before)
    for word in words:
        assert word in text
    assert "| filter | 0.500 h |" in text
    assert "Running for" not in text
    # Of a retry that failed at once: what the attempt before had stays.
    assert failure(what, error, text) == text


def test_a_failure_links_the_log() -> None:
    text = failure("failed", RunError("the disk is full"), "", "http://ui/runs/flow-run/1")
    assert "[Log of this run](http://ui/runs/flow-run/1?tab=Logs)" in text
    assert "Log of this run" not in failure("failed", RunError("the disk is full"))


def test_a_typed_name_is_kept_and_others_differ() -> None:
    then = datetime(2026, 1, 31, 2, 0, 5)
    for made_up in (generate_slug(2) for _ in range(50)):
        told = history.flow_run_name(made_up, "prepare", ["podcasts"], then)
        assert told == "podcasts 2026-01-31 02:00:05", made_up
    for typed in ("night-run-7", "before the fix", "retry", "aishell-train"):
        assert history.flow_run_name(typed, "prepare", ["podcasts"], then) == typed
    long = history.flow_run_name(generate_slug(2), "estimate", ["x" * 40, "y" * 40], then)
    assert long.startswith(f"estimate {'x' * 40}, yyy")
    assert len(long) < 100


def test_what_is_named_is_no_markup_and_no_secret() -> None:
    error = RunError("cannot read s3://me:geheim@bucket/a\n# <img src=x> [b](c) | d")
    text = failure("failed", error)
    assert "geheim" not in text
    assert "<img" not in text.replace("\\<img", "")
    assert "\n# " not in text
    assert "\\[b\\](c) \\| d" in text
    assert "geheim" not in markdown("s3://me:geheim@b/`x`", 1.0)
    assert escaped("a*b_c") == "a\\*b\\_c"
