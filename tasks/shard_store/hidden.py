"""Masks spans of texts that must not be published, as the chosen plug-ins (`pii`) find them.

Checkpoints keep texts as recognised; every text that is published, shown or sent is masked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..base.arrays import Int16s
from ..base.schema import WordRow
from ..plugins.contracts.text import Hidden, TextVerdict
from ..settings import StageSettings
from ..settings.job import Job
from . import hypotheses
from .annotated import text_plugins
from .requests import HeardTurn
from .utterance import Utterance


def _hiding(job: Job) -> list[tuple[TextVerdict, StageSettings]]:
    chosen = text_plugins(job.transcribe.verdicts)
    return [(module, settings) for _, module, settings in chosen if module.hide]


def hides(job: Job) -> bool:
    return bool(_hiding(job))


def mutes(job: Job) -> bool:
    return any(module.mutes(settings) for module, settings in _hiding(job))


def places(job: Job, text: str, language: str | None, thorough: bool = False) -> list[Hidden]:
    """The hidden spans of a text, in order and without overlaps. `thorough`: search for more, in a
    text about words that are hidden in another text."""
    spots = [
        spot
        for module, settings in _hiding(job)
        if module.hide is not None
        for spot in module.hide(text, language, settings, thorough)
    ]
    taken: list[Hidden] = []
    for spot in sorted(spots):
        if not taken or spot.start >= taken[-1].end:
            taken.append(spot)
    return taken


def masked(text: str, spots: Iterable[Hidden], form: Callable[[str], str] | None = None) -> str:
    """The text with masks; `form`: a function that is applied to the pieces between them."""
    pieces, last = list[str](), 0
    for spot in spots:
        pieces += [text[last : spot.start], spot.mask]
        last = spot.end
    pieces.append(text[last:])
    if form is None:
        return "".join(pieces)
    formed = (form(piece) if place % 2 == 0 else piece for place, piece in enumerate(pieces))
    return " ".join(piece for piece in formed if piece)


def most_places(job: Job, utterance: Utterance, text: str | None) -> int:
    """The largest number of hidden spans in any text of an utterance: `text`, its reference, or a
    hypothesis."""
    if not hides(job) or (heard := utterance.transcript) is None:
        return 0
    all_texts = {text, utterance.reference, *(one for one, _ in hypotheses.texts(utterance))}
    return max((len(places(job, one, heard["language"])) for one in all_texts if one), default=0)


def searched(job: Job, text: str, language: str | None, most: int) -> list[Hidden]:
    """The hidden spans of one of several texts for the same words. If it has fewer than `most`, the
    largest number in any of them, it is searched thoroughly."""
    spots = places(job, text, language)
    return places(job, text, language, True) if len(spots) < most else spots


def shown(job: Job, text: str | None, language: str | None, most: int = 0) -> str | None:
    """The text in publishable form; `most`: from `most_places`."""
    if not text or not hides(job):
        return text
    return masked(text, searched(job, text, language, most))


def shown_of(job: Job, utterance: Utterance, text: str) -> str | None:
    """A text of an utterance in publishable form."""
    language = utterance.transcript["language"] if utterance.transcript else None
    return shown(job, text, language, most_places(job, utterance, text))


def words(
    job: Job, rows: Sequence[WordRow] | None, language: str | None, thorough: bool = False
) -> Sequence[WordRow] | None:
    """Words with their times; those of a hidden span become one word, its mask."""
    if not rows or not hides(job):
        return rows
    kept, last = list[WordRow](), None
    for row, spot in zip(rows, _spots(job, rows, language, thorough), strict=True):
        if spot is None:
            kept.append(row)
        elif spot is last:
            kept[-1] = {**kept[-1], "end": row["end"]}
        else:
            kept.append({**row, "word": spot.mask, "probability": None})
        last = spot
    return kept


def silence(
    job: Job,
    utterance: Utterance,
    of_turns: Sequence[HeardTurn] = (),
) -> str | None:
    """The spans of a clip to mute (`muted_places`); None: none. `of_turns`: transcripts of its
    turns from their own channels. If hidden words have no times, a dropped clip is muted as a
    whole, and so is a turn."""
    heard, packed = utterance.transcript, utterance.packed
    thorough = bool(utterance.texts.get("pii"))
    if not mutes(job) or not (thorough or of_turns) or heard is None or packed is None:
        return None
    if utterance.outcome.outcome == "dropped" and utterance.texts.get("pii_untimed"):
        return f"0-{packed['num_samples']}"
    language, times = heard["language"], list[tuple[float, float]]()
    if thorough:
        times += _times(job, heard.get("word_times") or (), language, True)
    for one in of_turns:
        if one.words:
            times += _times(job, one.words, language, thorough)
        elif places(job, one.text, language, thorough):
            times.append((one.turn.start / utterance.rate, one.turn.end / utterance.rate))
    return muted_places(times, packed["rate"], packed["num_samples"])


def _times(
    job: Job, rows: Sequence[WordRow], language: str | None, thorough: bool
) -> list[tuple[float, float]]:
    """(start, end) of hidden words, s."""
    spots = _spots(job, rows, language, thorough)
    return [
        (row["start"], row["end"])
        for row, spot in zip(rows, spots, strict=True)
        if spot is not None
    ]


def _spots(
    job: Job, rows: Sequence[WordRow], language: str | None, thorough: bool
) -> list[Hidden | None]:
    """The hidden span that each word lies in."""
    bounds, text = list[tuple[int, int]](), ""
    for row in rows:
        text += " " if text and not row["word"].startswith(" ") else ""
        bounds.append((len(text), len(text) + len(row["word"])))
        text += row["word"]
    spots = places(job, text, language, thorough)
    return [
        next((spot for spot in spots if start < spot.end and spot.start < end), None)
        for start, end in bounds
    ]


class Texts(NamedTuple):
    text: str | None
    normalised: str | None
    hypothesis: str | None
    words: Sequence[WordRow] | None


def texts(
    job: Job, clip: Texts, language: str | None, most: int, compared: Callable[[str], str]
) -> Texts:
    """A clip's texts with masks. `most`: its `most_places`; `compared`: normalises a piece of
    text."""
    text, heard = clip.text or "", clip.hypothesis or ""
    spots = searched(job, text, language, most)
    return Texts(
        masked(text, spots),
        masked(text, spots, compared) if spots else clip.normalised,
        masked(heard, searched(job, heard, language, most)) if heard else clip.hypothesis,
        words(job, clip.words, language, most > 0),
    )


# Replaces hidden words by silence; the clip keeps its length and all other samples.
#
# The published column `muted`: "16000-24000 40000-41000", spans in samples of the clip, with the
# first included and the last excluded. Fades are outside of these spans.


PAD_S = 0.05  # s added on each side of a word, whose times are not exact
FADE = 64  # samples


def muted_places(words: Iterable[tuple[float, float]], rate: int, samples: int) -> str | None:
    """The `muted` of a clip; None without hidden words. `words`: (start, end) of these, s;
    `samples`: length of the clip."""
    merged: list[list[int]] = []
    for start, end in sorted(words):
        low = max(round((start - PAD_S) * rate), 0)
        high = min(round((end + PAD_S) * rate), samples)
        if merged and low <= merged[-1][1] + 2 * FADE:
            merged[-1][1] = max(merged[-1][1], high)
        elif low < high:
            merged.append([low, high])
    return " ".join(f"{low}-{high}" for low, high in merged) or None


def muted_spans(muted: str) -> list[tuple[int, int]]:
    """(first sample, end) of each span."""
    pairs = (place.split("-") for place in muted.split())
    return [(int(low), int(high)) for low, high in pairs]


def silenced(pcm: Int16s, muted: str | None) -> Int16s:
    """The clip, int16 [samples], with silence in the spans of `muted`."""
    if not muted:
        return pcm
    gain = np.ones(len(pcm) + 2 * FADE, np.float32)  # a margin, for fades beyond the clip
    fade = np.linspace(1, 0, FADE, dtype=np.float32)
    for low, high in muted_spans(muted):
        gain[low : low + FADE] = np.minimum(gain[low : low + FADE], fade)
        gain[low + FADE : high + FADE] = 0
        gain[high + FADE : high + 2 * FADE] = np.minimum(
            gain[high + FADE : high + 2 * FADE], fade[::-1]
        )
    muted_pcm: Int16s = np.rint(pcm * gain[FADE : FADE + len(pcm)]).astype("<i2")
    return muted_pcm
