"""Output for people: sentences, and tables whose cells are never read as markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ....tasks.base.counting import counted
from ....tasks.base.json_types import JsonObject
from ....tasks.base.masking import escaped
from ...formatting import clock

READ_AS = "read_as_"  # codes of files that were used but are not recordings: texts, turns

Line = str | Text | Table  # a sentence, plain or in a colour, or a table


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table that shows control characters as escapes, and takes more lines where the terminal is
    narrow. A column whose heading begins with `>` is aligned to the right."""
    shown = Text(title, style="table.title") if title else None
    grid = Table(title=shown, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        side: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        grid.add_column(Text(name.removeprefix(">")), justify=side, overflow="fold")
    for row in rows:
        grid.add_row(
            *(cell if isinstance(cell, Text) else Text(escaped(str(cell))) for cell in row)
        )
    return grid


class Printer(Console):
    """Rich's own console ends the process when a reader (`| head -1`) has read enough."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_to(console: Console, lines: Iterable[Line]) -> None:
    """Print tables and sentences, each sentence on one line, with control characters escaped."""
    for line in lines:
        if isinstance(line, Table):
            console.print(line)
            continue
        shown = Text(escaped(line.plain), line.style) if isinstance(line, Text) else escaped(line)
        console.print(shown, markup=False, highlight=False, soft_wrap=True)


def funnel(result: JsonObject) -> Iterator[Line]:
    """What came in, what each reason removed, and what was packaged."""
    recordings, utterances = result["recordings"], result["utterances"]
    seconds = result["seconds"]
    whole = seconds["in"] or 1.0
    removed = ((f"  − {n}", e["items"], e["seconds"]) for n, e in result["reasons"].items())
    steps = (
        ("recordings in", recordings["in"], seconds["in"]),
        *removed,
        ("packaged", utterances["packaged"], seconds["packaged"]),
    )
    rows = ((*step, clock(length), f"{100 * length / whole:.1f} %") for *step, length in steps)
    yield table("", ("", ">items", ">audio", ">share"), rows)
    yield from aside(result, "; `uttermill ledger OUT --items` names them")
    for sentence in result.get("stated", ()):
        yield f"{sentence}."


def aside(result: JsonObject, where: str = "") -> Iterator[str]:
    for heading, taken in (
        ("Read beside the recordings", True),
        ("Skipped (not used as recordings)", False),
    ):
        files = sorted(
            e for e in result.get("ignored", {}).items() if e[0].startswith(READ_AS) == taken
        )
        parts = ", ".join(f"{counted(n, 'file')} ({name})" for name, n in files)
        if parts:
            yield f"{heading}: {parts}{where}."


def broken(files: Sequence[Mapping[str, str]], failed: int) -> Iterator[Line]:
    for file in files:
        detail = f": {file['detail']}" if file["detail"] else ""
        yield f"Broken: {file['source_path']}  {file['reason']}{detail}"
    if failed > len(files):
        yield f"{failed - len(files)} more failed: uttermill ledger OUT --items names all."
