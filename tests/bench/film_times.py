"""How late a film's sound is heard, by container: milliseconds, as a table.

    python -m tests.bench.film_times

Each film is noise beside a picture. Its sound begins late, has a hole, is edited, or begins before
time 0; the largest error of two places is shown. A muxer may move a whole film, by the encoder's
delay or to begin at 0: right is what fits the picture. `named`: faults that the decoder reports.
"""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import av

from tests.helpers import films
from tests.helpers.films import edited, lateness, made

KINDS = ("mp4", "fragmented mp4", "mov", "3gp", "mkv", "webm", "ts", "flv", "mpg", "wtv", "nut")
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
EDITABLE = ("mp4", "mov", "3gp")
Places = tuple[tuple[float, float], tuple[float, float]]
#: (how the film is made, places with their right times)
SOUNDS: dict[str, tuple[dict[str, Any], Places]] = {
    "late start": ({"late": 3.4}, ((1, 4.4), (9, 12.4))),
    "hole": ({"hole": (4, 6.5)}, ((1, 1), (9, 9))),
    "late, hole": ({"late": 3.4, "hole": (4, 6.5)}, ((1, 4.4), (9, 12.4))),
    "negative start": ({"late": -0.5}, ((2, 1.5), (9, 8.5))),
}
EDITS: dict[str, tuple[tuple[tuple[float, float], ...], Places]] = {
    "empty edit first": (((2, -1), (12, 0)), ((1, 3), (9, 11))),
    "start cut off": (((9, 3),), ((4, 1), (10, 7))),
    "empty edit inside": (((1, -1), (3.84, 0), (2, -1), (7, 3.84)), ((2.5, 3.5), (9, 12))),
    "part left out": (((2.88, 0), (4, 5.76)), ((1, 1), (8, 5.12))),
}


def moved(path: Path) -> float:
    """By how many s the muxer moved the picture, by the container's time. A fragmented MP4 leaves
    the first frame at 0."""
    with av.open(str(path)) as film:
        packets = islice(film.demux(video=0), 9)
        second = sorted(float((p.pts or 0) * p.time_base) for p in packets)[1]
        return second - 1 / films.FRAMES - (film.start_time or 0) / av.time_base


def error(path: Path, places: Places, shift: float = 0.0) -> str:
    late, faults = lateness(path, *((place, time + shift) for place, time in places))
    named = f", {len(faults)} named" if faults else ""
    return f"{1000 * max(map(abs, late)):.1f}{named}"


def row(kind: str, home: Path) -> list[str]:
    ending = kind.rpartition(" ")[2]
    options = FRAGMENTED if " " in kind else None
    cells = []
    for how, places in SOUNDS.values():
        path = made(home / f"a.{ending}", options=options, **how)
        cells.append(error(path, places, moved(path)))
    for entries, places in EDITS.values():
        if kind in EDITABLE:
            film = made(home / "b.mp4").rename(home / f"b.{ending}")
            cells.append(error(edited(film, *entries), places))
    return [kind, *cells]


def main() -> None:
    print(*("container", *SOUNDS, *EDITS), sep=" | ")
    with tempfile.TemporaryDirectory() as home:
        for kind in KINDS:
            print(*row(kind, Path(home)), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
