"""Which files are texts of a folder's recordings, and how to read one."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import AfterValidator, Field

from ...base.counting import counted
from ...base.errors import ItemError
from ...recording import Segment
from ...scoring.cleaning import unmarked, wordless
from ...settings import StageSettings
from ...settings.base import WORDS
from ...storage import bounds
from .. import _columns
from .._lists import clock, json_value
from .._text_encoding import BAD_TEXT, decode
from . import bilingual, captions, rolling, services, tiers
from .cues import NOT_TIMED, Cues, NoTranscript, recurring, said

#: Kinds of texts by their ending, best first: times set by people, then plain text, last what only
#: machines write.
ENDINGS = (
    *("TextGrid", "eaf", "stm", "ctm", "ass", "ssa", "vtt", "ttml", "dfxp", "itt", "srt", "sbv"),
    *("sub", "lrc", "normalized.txt", "lab", "txt", "json", "tsv"),
)
PLAIN = ("lab", "txt")
OF_ANY_USE = (*PLAIN, "json", "tsv")  # most of which are no transcripts
_KINDS = {ending.lower(): ending for ending in ENDINGS if "." not in ending}
#: Bytes of a file; ten hours of timed words take half of it in JSON or XML, and a third in lines.
MOST_BYTES, MOST_OF_LINES = 32 << 20, 8 << 20
XML = ("ttml", "dfxp", "itt")
LARGE = ("TextGrid", "eaf", "json", *XML)
#: Kinds that are made in a player, whose clock is the container's. The tools that write others read
#: the audio alone.
CAPTIONS = ("ass", "ssa", "vtt", *XML, "srt", "sbv", "sub")
OF_FILMS = (*CAPTIONS, "eaf")
_PICTURES = "its subtitles are pictures; make .srt of them with an OCR program"
#: What to do about other kinds of subtitles and texts.
NOT_READ = {
    **dict.fromkeys(("smi", "scc", "mks"), "convert it: ffmpeg -i {name} {stem}.srt"),
    **dict.fromkeys(("stl", "usf"), "save it as {stem}.srt, with Subtitle Edit, for example"),
    **dict.fromkeys(("idx", "sup"), _PICTURES),
    **dict.fromkeys(("json3", "srv1", "srv2", "srv3"), "take .vtt: yt-dlp --sub-format vtt"),
    **dict.fromkeys(("doc", "docx", "odt", "rtf", "pdf"), "save its text as {stem}.txt"),
    **dict.fromkeys(("cha", "trs", "exb"), "import it into ELAN, and save it as {stem}.eaf"),
}
BY_HAND, AUTOMATIC = "by_hand", "automatic"
#: TIMIT's texts begin with the first and the last sample.
_TIMIT = re.compile(r"0\s{1,9}\d{4,9}\s{1,9}(\D.*)")
_LABEL = re.compile(r"\d+(?:\.\d+)?\s+\d+(?:\.\d+)?\s+\S+")  # of HTK, HTS: mostly phones
#: A line that begins with two times, perhaps after an id: of Kaldi, Fisher, or in a table.
_SPAN = re.compile(
    r"(?:\S{1,99}[\s,;|]{1,9})?"
    r"(\d{1,9}(?:\.\d{1,9})?)[\s,;|]{1,9}(\d{1,12}(?:\.\d{1,9})?)[\s,;|]{1,9}\S"
)
_TIME = r"(\d{1,2}:\d\d(?::\d\d)?)(?:[.,:;]\d{1,3})?"
#: A line that begins or ends with a time, as in transcripts of web pages and editors.
_CLOCK = re.compile(rf"[\[(]?{_TIME}(?:[\s\])–:-].*)?|.{{1,40}}\s[\[(]?{_TIME}[\])]?:?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_AS_LABELS = "write each as start, tab, end, tab and text, with times in seconds, as Audacity does"


def _ending(text: str) -> str:
    ending = text.removeprefix(".")
    if kind_of(ending) is None or not re.fullmatch(r"[\w.-]{1,40}", ending):
        raise ValueError(
            f"{text!r} is not an extension of texts; give one that ends in {', '.join(ENDINGS)}"
        )
    return ending


class TextsSettings(StageSettings):
    """Which texts beside the recordings are read."""

    ext: Annotated[str, AfterValidator(_ending)] | None = Field(
        None,
        description="Extension of the texts, after the recording's stem: `srt`, `en.srt`; default: "
        "every known one.",
        json_schema_extra=WORDS,
    )
    tier: str | tuple[str, ...] | None = Field(
        None,
        description="Tier of `.TextGrid` and `.eaf` files that holds the text, or several tiers, "
        "one a speaker; default: the only one that holds text.",
        json_schema_extra=WORDS,
    )
    language: str | None = Field(
        None,
        description="Language that is spoken, for captions in two; default: the source's.",
        json_schema_extra=WORDS,
    )


@dataclass(frozen=True, slots=True)
class Texts:
    """`ext`: the only ending, None for all known ones. `encoding`: from the settings."""

    ext: str | None = None
    tiers: tuple[str, ...] = ()
    encoding: str | None = None
    language: str | None = None  # that is heard, where captions are in two
    stated: str | None = None  # the source's language
    labels: tuple[str, ...] = ()  # to take from what lies beside

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of files to read, best first."""
        return ENDINGS if self.ext is None else (self.ext,)


@dataclass(frozen=True, slots=True)
class Read:
    """What a text gives its recording; `says`: the kind that it was read as, in words."""

    says: str
    text: str | None = None
    speaker: str | None = None
    language: str | None = None
    segments: tuple[Segment, ...] | None = None
    film_time: bool | None = None  # as of a Recording
    captions: str | None = None  # BY_HAND or AUTOMATIC; None: no captions

    @property
    def lines(self) -> list[str]:
        return [unmarked(segment.text or "") for segment in self.segments or ()]


def kind_of(ending: str) -> str | None:
    """The kind of a file with this ending: the last part of one of ENDINGS."""
    return _KINDS.get(ending.rpartition(".")[2].lower())


def read(kind: str, data: bytes, stem: str, texts: Texts) -> Read:
    """Reads a text of `kind`. Raises ItemError `bad_text`, or NoTranscript if it is none."""
    most = MOST_BYTES if kind in LARGE else MOST_OF_LINES
    if len(data) > most:
        limit = bounds.megabytes(most)
        raise ItemError(BAD_TEXT, f"it is larger than {limit}, the limit of a transcript")
    if kind in XML:
        return _captions(kind, captions.ttml(data), texts, kind)
    if kind == "eaf":
        return _timed("eaf", tiers.chosen(tiers.elan(data, stem), texts.tiers), "eaf")
    if kind == "sub" and b"\0" in data[:64]:
        raise NoTranscript(_PICTURES)
    text, encoding = decode(data, texts.encoding)
    if not text.strip():
        return Read(f"{kind} in {encoding}: it is empty")
    says = f"{kind} in {encoding}"
    if kind in PLAIN:
        if captions.are_blocks(text):  # of SubRip or WebVTT, under another name
            return _captions(f"captions in {encoding}", captions.blocks(text), texts, "srt")
        if (labels := tiers.labels(text)) is not None:
            return _timed(f"labels in {encoding}", labels, kind)
        if captions.are_frames(text):
            return _captions(f"MicroDVD in {encoding}", captions.microdvd(text), texts, "sub")
        return _plain(says, text)
    try:
        if reader := _READERS.get(kind):
            cues = reader(text)
        elif kind == "TextGrid":
            cues = tiers.chosen(tiers.textgrid(text), texts.tiers)
        else:
            cues = (tiers.ctm if kind == "ctm" else tiers.stm)(text, stem)
    except NoTranscript:
        if kind != "json" or not (facts := _told(text, texts)):
            raise
        return Read(f"text in JSON, {encoding}", facts["text"], facts["speaker"], facts["language"])
    if kind == "lrc":
        cues.cues = bilingual.of_language(cues.cues, texts.language)
    return _captions(says, cues, texts, kind) if kind in CAPTIONS else _timed(says, cues, kind)


def _told(text: str, texts: Texts) -> dict[str, str | None]:
    """What a JSON object of data sets says of a recording; empty if it has no text."""
    value = json_value(text)
    if not isinstance(value, dict):
        return {}
    if not isinstance(value.get(_columns.first("text", value) or ""), str):
        return {}
    try:
        return _columns.told(value, texts.stated)
    except ValueError as error:
        raise ItemError(BAD_TEXT, str(error)) from None


def _captions(says: str, cues: Cues, texts: Texts, kind: str) -> Read:
    tagged, clips = rolling.tagged(cues.cues), rolling.automatic(cues.cues)
    if clips is None:
        clips = rolling.sentences(bilingual.of_language(cues.cues, texts.language))
        author = AUTOMATIC if rolling.unmarked(clips) else BY_HAND
        says += ", without capitals and full stops" if author == AUTOMATIC else ""
    else:
        says, author = f"{says}, automatic captions", AUTOMATIC
    cues.cues = clips
    return replace(_timed(says, cues, kind, tagged), captions=author)


#: Kinds whose text alone tells all.
_READERS: dict[str, Callable[[str], Cues]] = {
    **dict.fromkeys(("srt", "vtt", "sbv"), captions.blocks),
    **dict.fromkeys(("ass", "ssa"), captions.substation),
    **{"sub": captions.microdvd, "lrc": captions.lrc},
    **{"json": services.cues, "tsv": captions.whisper},
}


def _have_times(lines: list[str]) -> bool:
    """Whether all lines are columns with two of numbers, or a third of them begin with a span of
    time. Numbers that are said have neither a point nor as many digits as samples; a few may have
    one point (`3 3.5 percent`)."""
    rows = [line.split("\t") for line in lines]
    if all(len(row) > 2 and sum(map(bool, map(_NUMBER.fullmatch, row))) > 1 for row in rows):
        return True
    matches = [match for line in lines if (match := _SPAN.match(line))]
    digits = 5 if len(lines) == 1 else 4
    few = len(lines) < 3
    starts = [
        float(match[1])
        for match in matches
        if float(match[1]) < float(match[2])
        and (len(match[2]) >= digits if "." not in match[2] else not few or _is_exact(match[1]))
    ]
    return starts == sorted({*starts}) and 3 * len(starts) >= len(lines)


def _is_exact(start: str) -> bool:
    return "." in start or start == "0"


def _plain(says: str, text: str) -> Read:
    """A text without times: the recording's. A text of sounds alone is kept as it is, so that a
    rule of `transcribe` drops the clip; it would otherwise get the recogniser's text."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    if all(map(_LABEL.fullmatch, lines)):
        raise NoTranscript(f"its labels are phones, or words with times; of words, {_AS_LABELS}")
    matches = [match for line in lines if (match := _CLOCK.fullmatch(line))]
    times = [clock(match[1] or match[2]) for match in matches]
    in_order = times == sorted({*times}) and times[0] < 60 if times else False
    if in_order and 3 * len(times) >= len(lines) > 1:  # of the recording, from its begin
        raise ItemError(BAD_TEXT, "its lines begin or end with times; write it as .srt or .vtt")
    if (counted_samples := _TIMIT.fullmatch(text.strip())) is not None:
        text = counted_samples[1]
    elif _have_times(lines):
        raise ItemError(BAD_TEXT, f"its lines have times; {_AS_LABELS}")
    if "\0" in text:
        raise ItemError(BAD_TEXT, "it holds NUL bytes, so it is not text")
    content = said(text, recurring([text]))
    if too_long := bounds.too_long(len(text.encode())):
        raise ItemError(BAD_TEXT, too_long)
    kept = content.text or " ".join(text.split())
    none = ": no words in it" if wordless(kept) else ""
    return Read(says + none, kept, content.speaker)


def _timed(says: str, cues: Cues, kind: str, words_timed: bool = True) -> Read:
    segments = cues.segments()
    words = sum(len(segment.words or ()) for segment in segments) if words_timed else 0
    timed = f" of {counted(words, 'word')} with times" if words else ""
    parts = [counted(len(segments), "segment") + timed]
    parts += [f"{counted(n, 'cue')} {what}" for what, n in sorted(cues.wrong.items()) if n]
    if not segments and any(cues.wrong[fault] for fault in NOT_TIMED):
        faults = "; ".join(parts[1:])
        why = f"no cue of it can be used: {faults}; write begin and end of each as in .srt"
        raise ItemError(BAD_TEXT, f"{why} (00:00:01,500 --> 00:00:03,000)")
    film_time = True if kind in OF_FILMS and segments else None
    return Read(f"{says}: {'; '.join(parts)}", segments=segments or None, film_time=film_time)
