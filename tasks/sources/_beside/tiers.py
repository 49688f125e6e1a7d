"""Transcripts of annotation tools: tiers of Praat's TextGrids and of ELAN's files, of which some
hold the text; NIST's CTM (words with times) and STM (segments); and labels as Audacity exports
them."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from xml.etree.ElementTree import Element

from ...base.errors import ItemError
from ...recording import TimedWord
from ...recording.locator import Channels
from ...recording.tracks import channel_side
from .._lists import SILENT
from .._text_encoding import BAD_TEXT
from .captions import read_xml
from .cues import OVERLAP, Cue, Cues, joined, said

#: Aligners' labels for what is not a word.
NO_WORD = SILENT | {"sp", "spn", "<p:>", "<usb>", "<nib>", "#"}
_WORDS = re.compile(r"(?:.*[\s_-])?(?:words?|mots|wörter|ort-mau|ort)", re.IGNORECASE)
_PHONES = re.compile(
    r"(?:.*[\s_-])?(?:phones?|phonemes?|mau|kan|kas|mas|syll?ables?)", re.IGNORECASE
)
#: The Montreal Forced Aligner's tiers of words where several speak.
_SPEAKERS = re.compile(r"(.+?) - words")
#: A tier of words: the least that shows one; the length of a word in s, which most do not reach.
LEAST_WORDS, SHORT, SHARE = 5, 1.0, 0.8
PAUSE = 0.5  # s between words of two turns
MOST_BEGIN = 0.05  # s at which a TextGrid of a whole recording begins


@dataclass(slots=True)
class Tier:
    """`spans`: (start, end, text), times in s; `speaker`: where the file names one."""

    name: str
    spans: list[tuple[float, float, str]] = field(default_factory=list)
    speaker: str | None = None


def chosen(tiers: list[Tier], wanted: tuple[str, ...]) -> Cues:
    """The cues of the `wanted` tiers, each with a speaker of its own if there are several; by
    default, of the only tier with text. A tier of words is one cue with timed words."""
    spoken = [tier for tier in tiers if any(text.strip() for *_, text in tier.spans)]
    cues = Cues()
    if wanted:
        taken = [tier for tier in tiers if tier.name in wanted]
        if missing := sorted(set(wanted) - {tier.name for tier in taken}):
            raise ItemError(BAD_TEXT, f"no tier {missing[0]!r}; it has {_names(tiers)}")
    else:
        named = _WORDS.fullmatch
        taken = [t for t in spoken if named(t.name) or not _PHONES.fullmatch(t.name)]
        if len(taken) > 1 and all(_SPEAKERS.fullmatch(tier.name) for tier in taken):
            return _turns(taken)
        if len(taken) > 1:
            taken = [tier for tier in taken if not _is_words(tier)] or taken
        if len(taken) > 1:
            raise ItemError(
                BAD_TEXT,
                f"several of its tiers hold text: {_names(taken)}; choose one by "
                "`texts: {tier: NAME}` on the source, or [NAME, …] for one a speaker",
            )
    if len(taken) > 1 and all(map(_is_words, taken)):
        return _turns(taken)
    for tier in taken:
        speaker = tier.speaker or (tier.name if len(taken) > 1 else None)
        if _is_words(tier):
            _add(cues, _words(tier), speaker)
            continue
        for start, end, text in tier.spans:
            if text.strip() not in NO_WORD:
                cues.add(Cue(start, end, text, speaker))
    return cues


def _is_words(tier: Tier) -> bool:
    """By its name, in whatever language, or since its labels are short and follow one another."""
    if _WORDS.fullmatch(tier.name):
        return True
    words = _words(tier)
    short = sum(word.end - word.start < SHORT and len(word.word.split()) == 1 for word in words)
    joined_on = sum(after.start - word.end < OVERLAP for word, after in pairwise(words))
    return len(words) >= LEAST_WORDS and short >= SHARE * len(words) and 2 * joined_on > len(words)


def _words(tier: Tier) -> tuple[TimedWord, ...]:
    spans = [span for span in sorted(tier.spans) if span[2].strip() not in NO_WORD]
    return tuple(TimedWord(text.strip(), start, end) for start, end, text in spans)


def _add(
    cues: Cues, words: Sequence[TimedWord], speaker: str | None, channels: Channels | None = None
) -> None:
    """Adds words as one cue; as one for each turn, where some are marked as not understood, which
    cost the cue that they are in."""
    text = joined(words)
    if said(text).unheard:
        _add_turns(cues, [(speaker, word) for word in words], channels)
    elif words:
        cues.add(Cue(0.0, None, text, speaker, tuple(words), channels))


def _turns(tiers: list[Tier]) -> Cues:
    """Tiers of words, one a speaker, as turns."""
    spoken: list[tuple[str | None, TimedWord]] = []
    for tier in tiers:
        named = _SPEAKERS.fullmatch(tier.name)
        speaker = tier.speaker or (named[1] if named else tier.name)
        spoken += [(speaker, word) for word in _words(tier)]
    cues = Cues()
    _add_turns(cues, sorted(spoken, key=lambda pair: (pair[1].start, pair[1].end)))
    return cues


def _add_turns(
    cues: Cues,
    spoken: Iterable[tuple[str | None, TimedWord]],
    channels: Channels | None = None,
) -> None:
    """Adds words with their speakers as turns, which end with a pause or where another speaks."""
    turns: list[list[tuple[str | None, TimedWord]]] = []
    for speaker, word in spoken:
        last = turns[-1][-1] if turns else None
        if last and last[0] == speaker and word.start - last[1].end < PAUSE:
            turns[-1].append((speaker, word))
        else:
            turns.append([(speaker, word)])
    for turn in turns:
        words = tuple(word for _, word in turn)
        times = words[0].start, words[-1].end
        cues.add(Cue(*times, joined(words), turn[0][0], words, channels))


def _names(tiers: list[Tier]) -> str:
    shown = ", ".join(repr(tier.name[:40]) for tier in tiers[:6])
    return f"{shown}, …" if len(tiers) > 6 else shown or "none"


#: A quoted text, in which a quote is doubled, or a number; skips flags and a line's `name =`.
_TOKEN = re.compile(
    r'"([^"]*(?:""[^"]*)*)"|(?<![\w\]\[.])(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w\]:.])'
)


def textgrid(text: str) -> list[Tier]:
    """Interval tiers of a TextGrid, in Praat's long or short text form."""
    if "ooTextFile" not in text[:200] and "TextGrid" not in text[:200]:
        raise ItemError(BAD_TEXT, "it is not a TextGrid in Praat's text form")
    tokens = [
        match[1].replace('""', '"') if match[1] is not None else float(match[2])
        for match in _TOKEN.finditer(text)
    ]
    tiers: list[Tier] = []
    points = False
    position = next(
        (n for n, t in enumerate(tokens) if t in ("IntervalTier", "TextTier")), len(tokens)
    )
    begin = next((token for token in tokens[:position] if isinstance(token, float)), 0.0)
    if abs(begin) > MOST_BEGIN:
        raise ItemError(
            BAD_TEXT,
            f"its times begin at {begin:g} s, not at 0; shift them in Praat (Modify times)",
        )
    try:
        while position < len(tokens):
            kind, name, _, _, count = tokens[position : position + 5]
            width = 3 if kind == "IntervalTier" else 2
            begin, position = position + 5, position + 5 + width * int(count)
            if not begin <= position <= len(tokens):
                raise ValueError
            rows = [tokens[n : n + width] for n in range(begin, position, width)]
            if kind == "IntervalTier":
                spans = [(float(start), float(end), str(label)) for start, end, label in rows]
                tiers.append(Tier(str(name), spans))
            else:
                points = points or int(count) > 0
    except (ValueError, TypeError, OverflowError):
        raise ItemError(BAD_TEXT, "its tiers have more or fewer entries than it states") from None
    if points and not tiers:
        why = "it has point tiers alone, whose labels have no end; make interval tiers of them"
        raise ItemError(BAD_TEXT, why)
    return tiers


def elan(data: bytes, stem: str) -> list[Tier]:
    """The tiers of an ELAN file about the recording `stem`, in its time. Annotations that refer to
    others, without times of their own, are skipped. ItemError `bad_text`, also if it declares
    entities."""
    return read_xml(data, partial(_of_elan, stem), "it is not an ELAN file")


def _of_elan(stem: str, root: Element) -> list[Tier]:
    origins: dict[str, float] = {}  # by a medium's stem: s that it plays at 0 of the file
    for media in root.iter("MEDIA_DESCRIPTOR"):
        medium = re.split(r"[/\\]", media.get("MEDIA_URL", ""))[-1].rpartition(".")[0]
        origins[medium] = int(media.get("TIME_ORIGIN") or 0) / 1000
    several = len({*origins.values()}) > 1
    origin = origins.get(stem) if several else next(iter(origins.values()), 0.0)
    if origin is None:
        why = f"its media begin at other times (TIME_ORIGIN), and none of them is named {stem}"
        raise ItemError(BAD_TEXT, why)
    slots = ((s.get("TIME_SLOT_ID", ""), s.get("TIME_VALUE")) for s in root.iter("TIME_SLOT"))
    times = {slot: int(value) / 1000 + origin for slot, value in slots if value}
    tiers = []
    for tier in root.iter("TIER"):
        spans: list[tuple[float, float, str]] = []
        last = ""
        for annotation in tier.iter("ALIGNABLE_ANNOTATION"):
            edges = [annotation.get(f"TIME_SLOT_REF{number}", "") for number in (1, 2)]
            start, end = (times.get(slot, math.nan) for slot in edges)
            text = annotation.findtext("ANNOTATION_VALUE", "")
            if spans and edges[0] == last and last not in times:  # both are parts of one span
                start, _, before = spans.pop()
                text = f"{before} {text}"
            spans.append((start, end, text))
            last = edges[1]
        tiers.append(Tier(tier.get("TIER_ID", ""), spans, tier.get("PARTICIPANT") or None))
    return tiers


_LABEL = re.compile(r"(\d+(?:[.,]\d+)?)\t(\d+(?:[.,]\d+)?)(?:\t([^\t]*))?")
#: `{ um / uh / @ }`: of alternatives the first counts; `@` is silence.
_ALTERNATIVES = re.compile(r"\{(?:\s*@\s*|([^{}/]*))(?:/[^{}/]*)+\}")
NO_SPEECH = ("ignore_time_segment_in_scoring", "inter_segment_gap", "<excluded>")


def ctm(text: str, stem: str) -> Cues:
    """CTM: `file channel start duration word [confidence]`; all words of a channel are one cue.
    `%hesitation` and its like are sounds."""
    rows = _rows(text, stem, "file channel start duration word", 2)
    sides = _sides(rows)
    spoken: dict[Channels | None, list[TimedWord]] = {}
    later = False  # within the second or a later one of alternatives, of which the first counts
    for row, start, duration in rows:
        word, mark = row[4], row[4].upper()
        is_sound = word.startswith(("<", "%", "@")) and not said(word).unheard
        if mark in ("<ALT>", "<ALT_BEGIN>", "<ALT_END>"):
            later = mark == "<ALT>"
        elif not later and word not in SILENT and not is_sound:
            timed = TimedWord(word, start, start + duration)
            spoken.setdefault(sides[row[1]], []).append(timed)
    cues = Cues()
    for channels, heard in spoken.items():
        _add(cues, sorted(heard, key=lambda word: word.start), None, channels)
    return cues


def stm(text: str, stem: str) -> Cues:
    """STM: `file channel speaker start end [<label>] text`."""
    cues = Cues()
    rows = _rows(text, stem, "file channel speaker start end text", 3)
    sides = _sides(rows)
    for row, start, end in rows:
        content = re.sub(r"^<[^<>]*>\s*", "", row[5]) if len(row) > 5 else ""
        content = _ALTERNATIVES.sub(r"\1", content)
        if content.strip().lower() in NO_SPEECH or row[2].lower() in NO_SPEECH:
            content = ""
        cues.add(Cue(start, end, content, row[2], channels=sides[row[1]]))
    return cues


def labels(text: str) -> Cues | None:
    """Audacity: `start<tab>end<tab>text`; None if a line is something else."""
    if "\t" not in text:
        return None
    cues = Cues()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\\\t")]
    for line in lines:
        label = _LABEL.fullmatch(line)
        if label is None:
            return None
        start, end = (float(time.replace(",", ".")) for time in label.groups()[:2])
        cues.add(Cue(start, end, label[3] or ""))
    return cues if lines else None


#: The fields of a line, and two of them as numbers.
_Row = tuple[list[str], float, float]


def _rows(text: str, stem: str, what: str, times: int) -> list[_Row]:
    """The lines about the recording `stem`; all lines if they name only one. `what`: their fields,
    of which the last may be empty; `times`: the first of two with numbers."""
    rows: list[_Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(";;"):
            continue
        row = line.split(None, 5)
        if len(row) < 5:
            raise ItemError(BAD_TEXT, f"line {number} is not `{what}`")
        try:
            # `*` stands in a line that marks alternatives.
            first, second = (float(field.replace("*", "0")) for field in row[times : times + 2])
        except ValueError:
            first = second = math.nan
        if not (0 <= first < math.inf and 0 <= second < math.inf):
            raise ItemError(
                BAD_TEXT,
                f"line {number}: {' and '.join(row[times : times + 2])[:40]!r} are not seconds; "
                f"it should be `{what}`",
            )
        rows.append((row, first, second))
    if len({row[0] for row, *_ in rows}) > 1:
        rows = [row for row in rows if row[0][0] == stem]
        if not rows:
            raise ItemError(BAD_TEXT, f"no line of it names the recording {stem}")
    return rows


def _sides(rows: list[_Row]) -> dict[str, Channels | None]:
    """The channel that each name stands for; a single name stands for the whole file."""
    names = {row[1] for row, *_ in rows}
    if len(names) == 1:
        return dict.fromkeys(names)
    sides = {name: channel_side(name, names) for name in names}
    if unknown := sorted(name for name, channels in sides.items() if channels is None):
        raise ItemError(
            BAD_TEXT, f"{unknown[0][:20]!r} is not a channel: write A, B, or a number from 1"
        )
    return sides
