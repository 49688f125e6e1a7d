"""Texts whose times are of another clock or unit, or that cost time without end."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.sources.test_texts_beside import EAF, LONG, one, put, recordings
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.recording import Segment
from uttermill.tasks.scoring import cleaning
from uttermill.tasks.settings import Source


@pytest.mark.parametrize(
    "text",
    [
        "0.00 4.50 hello world\n4.50 9.10 how are you\n",
        "0.00 4.50 hello world\n",
        "1200 45360 hello world\n",
        "0 45000000 hello world\n45000000 90000000 how are you\n",
        "# fe_03.sph\n\n0.68 1.33 A: hello\n\n1.40 2.55 B: hi there\n",
        "sw2001A-0001 0.000 0.977 hello\nsw2001A-0002 0.977 11.561 hi um yeah\n",
        "start,end,text\n0.0,4.5,hello world\n4.5,9.0,how are you\n",
        "start\tend\ttext\n0\t4500\thello world\n4500\t9000\thow are you\n",
        "utt\tAnna\t00:00:01.000\t00:00:02.500\thello\nutt\tAnna\t1:00\t2:00\tso\n",  # of ELAN
        "1.0\t2.5\tAnna\thello there\n3.0\t4.0\tBob\tsecond\n",
    ],
)
def test_lines_that_begin_with_times_are_no_text(tmp_path: Path, text: str) -> None:
    error = one(tmp_path, "a.txt", text).error
    assert error is not None
    assert "its lines have times; write each as start, tab" in error[1]


@pytest.mark.parametrize(
    "text",
    [
        "1 2 buckle my shoe\n3 4 knock at the door",
        "1914 1918 the war",
        "3 3.5 percent of them",
        "10 10.5 or so\nof these",
    ],
)
def test_numbers_that_are_said_are_no_times(tmp_path: Path, text: str) -> None:
    assert one(tmp_path, "a.txt", text).text == " ".join(text.split())


def test_frames_are_no_text(tmp_path: Path) -> None:
    frames = "{25}{100}One two.\n{125}{200}Three.\n"
    assert one(tmp_path, "a.txt", "{1}{1}25\n" + frames).segments == (
        Segment(1.0, 4.0, None, "One two."),
        Segment(5.0, 8.0, None, "Three."),
    )
    assert one(tmp_path / "unsaid", "a.txt", frames).text is None


def ttml(cues: str, head: str = "", body: str = "") -> str:
    """TTML; `head`, `body`: attributes."""
    return (
        f'<tt xmlns="http://www.w3.org/ns/ttml" {head}><body {body}><div>{cues}</div></body></tt>'
    )


NTSC = 'frameRate="30" frameRateMultiplier="1000 1001"'


@pytest.mark.parametrize(
    ("cue", "head", "times"),
    [
        ('begin="00:00:05,000" end="7s"', "", (5.0, 7.0)),
        ('begin="0:00:05.000" end="00:00:07.000"', "", (5.0, 7.0)),
        ('begin="5.5" end="1:07.0"', "", (5.5, 67.0)),
        ('begin="50t" end="70t"', 'frameRate="10"', (5.0, 7.0)),
        ('begin="00:00:05:05.1" end="7s"', 'frameRate="10" subFrameRate="2"', (5.5, 7.0)),
        ('begin="108000f" end="108060f"', NTSC, (3603.6, 3605.602)),
        ('begin="01:00:00:00" end="01:00:02:00"', f'{NTSC} timeBase="smpte"', (3603.6, 3605.602)),
        ('begin="01:00:00:00" end="01:00:02:00"', f'{NTSC} timeBase="media"', (3600.0, 3602.0)),
    ],
)
def test_times_of_ttml(tmp_path: Path, cue: str, head: str, times: tuple[float, float]) -> None:
    found = one(tmp_path, "a.ttml", ttml(f"<p {cue}>One.</p>", head)).segments or ()
    assert [(one.start, one.end) for one in found] == [times]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.ttml", ttml('<p begin="5" dur="2s">One.</p>'), "1 cue without a time"),
        ("a.ttml", ttml('<p begin="soon" end="7s">One.</p>'), "1 cue without a time"),
        ("a.srt", "1\n00:00:01:12 --> 00:00:02:12\nIn frames.\n", "1 cue without a time"),
        ("a.txt", "1.0\t1.0\tpoint\n2.0\t2.0\tpoint\n", "2 cues without a length"),
        (
            "a.TextGrid",
            '"ooTextFile"\n"TextGrid"\n0\n9\n<exists>\n1\n"TextTier"\n"t"\n0\n9\n1\n2\n"x"\n',
            "point tiers alone",
        ),
        *(
            ("a.txt", text, "begin or end with times")
            for text in (
                "[00:00:01] Anna: Hello.\n\n[00:00:03] Bob: Yes.\n",
                "Anna (00:01):\nHello.\n\nBob (00:03):\nYes.\n",
                "00:00:01:00 - 00:00:02:12\nAnna\nHello.\n\n00:00:03:00 - 00:00:04:00\nBob\nYes.\n",
                "[0:01-0:02] Hello there.\n[0:03-0:04] Second one.\n",
            )
        ),
    ],
)
def test_a_text_none_of_whose_times_can_be_read_is_refused(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    """The recogniser's text would silently take its place."""
    error = one(tmp_path, name, text).error
    assert error is not None
    assert error[0] == "bad_text"
    assert says in error[1]


def test_what_has_no_clock_of_its_own_is_refused(tmp_path: Path) -> None:
    cues = '<p dur="2s">One.</p><p dur="3s">Two.</p>'
    error = one(tmp_path, "a.ttml", ttml(cues, body='timeContainer="seq"')).error
    assert error is not None
    assert "count from one another" in error[1]
    part = "WEBVTT\n{}\n\n00:01.000 --> 00:02.000\nOne.\n\n"
    zero = "X-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000"
    for other in ("", zero.replace("9", "18"), zero.replace("LOCAL:00", "LOCAL:01")):
        error = one(tmp_path, "a.vtt", part.format(zero) + part.format(other)).error
        assert error is not None
        assert "a clock of its own" in error[1]
    twice = part.format(zero) + part.format(zero).replace("01.000", "01.500")
    found = one(tmp_path, "a.vtt", twice).segments or ()
    assert [segment.text for segment in found] == ["One.", "One."]
    srt = "1\n00:00:0{},000 --> 00:00:09,000\nOne.\n\n2\n00:00:1{},000 --> 00:00:20,000\nTwo.\n\n"
    error = one(tmp_path / "b", "a.srt", srt.format(1, 1) + srt.format(0, 1)).error
    assert error is not None
    assert "begin anew in line 9" in error[1]


def test_a_grid_of_a_part_is_refused(tmp_path: Path) -> None:
    error = one(tmp_path, "a.TextGrid", LONG.replace("xmin = 0", "xmin = 10", 1)).error
    assert error is not None
    assert "its times begin at 10 s, not at 0" in error[1]


def test_times_of_elan_are_those_of_the_medium(tmp_path: Path) -> None:
    medium = '<MEDIA_DESCRIPTOR MEDIA_URL="file:///d/{}" TIME_ORIGIN="5000"/>'
    late, film = medium.format("a.wav"), medium.format("film.mp4")
    begin = "<TIME_ORDER>"
    assert begin in EAF
    for media, start in ((late, 5.5), (late + film.replace("5000", "0"), 5.5), (film, 5.5)):
        folder = tmp_path / str(hash(media))
        segments = one(folder, "a.eaf", EAF.replace(begin, media + begin)).segments or ()
        assert segments[0].start == start
    unnamed = late.replace("a.wav", "b.wav") + film.replace("5000", "0")
    error = one(tmp_path / "b", "a.eaf", EAF.replace(begin, unnamed + begin)).error
    assert error is not None
    assert "none of them is named a" in error[1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "0 12345" + " " * 20_000 + "1 1"),
        ("a.txt", "-" * 20_000 + ":x"),
        ("a.txt", "a " + "*" * 20_000),
        ("a.txt", "a" + "\n" * 20_000 + "b"),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n<v" + " " * 20_000 + "x\n"),
        ("a.srt", "[0:00:01,000" + "\n" * 20_000 + "0:00" * 9_000),
    ],
)
def test_marks_without_end_cost_no_time(tmp_path: Path, name: str, text: str) -> None:
    """They took 8 to 20 s each, and some thousand times as long where a text is the largest."""
    before = time.process_time()
    one(tmp_path, name, text)
    cleaning.wordless("*" * 20_000)
    assert len(cleaning.sounds("so [noise] " * 20_000)) == 20_000
    assert time.process_time() - before < 2


def spans(path: Path, kind: str = "table", **options: Any) -> list[object]:
    """Of each recording of a list, the times of its segments, or what is wrong."""
    module, settings = resolve_source(Source(kind=kind, path=str(path), **options))
    return [
        item.error[1] if item.error else item.segments and [(s.start, s.end) for s in item.segments]
        for item in recordings([*module.recordings(settings)])
    ]


def test_times_in_milliseconds_by_the_name_of_their_column(tmp_path: Path) -> None:
    """A row's text was that of the whole file."""
    put(tmp_path / "a.wav")
    put(tmp_path / "x.csv", "audio,start_ms,end_ms,text\na.wav,1200,3500.5,One\n")
    put(tmp_path / "y.csv", "audio,Start Time (ms),len,text\na.wav,1200,2,One\n")
    put(tmp_path / "z.jsonl", '{"audio": "a.wav", "startMs": 1200, "duration_ms": 800}\n')
    assert spans(tmp_path / "x.csv") == [[(1.2, 3.5005)]]
    columns = {"start": "Start Time (ms)", "end": ""}
    assert spans(tmp_path / "y.csv", columns=columns) == [[(1.2, None)]]
    assert spans(tmp_path / "z.jsonl", "jsonl") == [[(1.2, 2.0)]]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("start_sample,end_sample", "times in 'start_sample' that are not taken"),
        ("tmin,tmax", "times in 'tmin' that are not taken"),
        ("Start (s),End (s)", "times in 'Start (s)' that are not taken"),
        ("startTime,endTime", "times in 'startTime' that are not taken"),
        ("start,speaker", "have a start ('start') and no end"),
        ("from_corpus,to_corpus", ""),
    ],
)
def test_times_that_are_not_taken(tmp_path: Path, names: str, says: str) -> None:
    """Rows of a file would be its whole sound with the first text, or go on to its end."""
    value = "c1" if "corpus" in names else "1"
    put(tmp_path / "a.wav")
    put(tmp_path / "x.csv", f"audio,{names},text\na.wav,{value},2,One\na.wav,{value},4,Two\n")
    if not says:
        assert spans(tmp_path / "x.csv") == [None]
        return
    with pytest.raises(ConfigError, match=re.escape(says)):
        spans(tmp_path / "x.csv")
    first = names.partition(",")[0]
    role = "end" if first == "start" else "start"
    assert spans(tmp_path / "x.csv", columns={role: ""})


def test_keys_that_are_not_taken(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    rows = ({"audio_filepath": "a.wav", "start": n, "end": n + 1, "text": f"{n}"} for n in (1, 3))
    put(tmp_path / "x.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(ConfigError, match="times in 'start' that are not taken"):
        spans(tmp_path / "x.jsonl", kind="jsonl")
    taken = {"start": "start", "end": "end"}
    assert spans(tmp_path / "x.jsonl", kind="jsonl", columns=taken) == [[(1.0, 2.0), (3.0, 4.0)]]


def test_an_offset_beside_an_onset_is_an_end(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    rows = "1.5,2.5,One\na.wav,nan,3,Two\n"
    put(tmp_path / "x.csv", f"audio,onset,offset,text\na.wav,{rows}")
    assert spans(tmp_path / "x.csv") == ["the segment has an end, but no start", [(1.5, 2.5)]]
    put(tmp_path / "x.csv", f"audio,offset,duration,text\na.wav,{rows.replace('nan', '5')}")
    assert spans(tmp_path / "x.csv") == [[(1.5, 4.0), (5.0, 8.0)]]


def test_times_by_the_clock(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    rows = ["0:00:01.5;00:00:02,25", "00:03;1:02:04.125", "5,5;6,5"]
    table = "audio;start;end;text\n" + "".join(f"a.wav;{row};one\n" for row in rows)
    wrong = "a time is not a number of seconds, such as 1.5: '5,5'"
    assert spans(put(tmp_path / "x.csv", table)) == [wrong, [(1.5, 2.25), (3.0, 3724.125)]]
