"""What people see: every name as it is, whatever characters it holds."""

from __future__ import annotations

import io

from rich.console import Console

from flows import show


def test_names_with_brackets_are_shown_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=200)
    out = "/data/[bold]x[/b]"
    show.status({"out": out, "stages": {}, "shards": 0, "dataset": f"{out}/v0001"}, console)
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert told.count(out) == 2


def test_the_result_of_a_run_names_its_dataset() -> None:
    nothing = {"recordings": {"in": 0}, "utterances": {"packaged": 0}, "reasons": {}}
    console = Console(file=io.StringIO(), width=200)
    show.run(
        {
            **nothing, "seconds": {"in": 0.0, "packaged": 0.0}, "stages": {}, "scored": 0,
            "new": True, "deaths": {}, "dataset": "/data/[/b]/v0001", "wall_seconds": 1.0,
            "tars": {"tars": 3, "written": 1, "linked": 2, "readers": 4,
                     "worst_reader_extra_hours": 0.25},
            "reader_drops": [{"warning": "nemo: it would drop 3 of 9 [clips]"}],
        },
        console,
    )  # fmt: skip
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert "3 tars, 1 written and 2 as they were; of 4 readers the worst gets 0.250 h" in told
    assert "/data/[/b]/v0001" in told
    assert "warning: nemo: it would drop 3 of 9 [clips]" in told
