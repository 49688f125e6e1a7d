"""Shelf of published formats. A plug-in has

    def plan(rows: list[Row], settings: PackageSettings) -> list[Piece]
    def write(piece: Piece, rows, pcm, home: Path) -> None      # on a worker; pcm(row) -> int16
    def check(piece: Piece, rows, home: Path) -> list[str]      # reopen, decode; faults in words
    def finish(pieces, home: Path) -> None                      # lists over all pieces

A piece is what one worker call writes: one file of the format's folder.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """One file to write: its path relative to the version, and the rows that go in, in order."""

    format: str
    path: str
    ids: tuple[str, ...]
