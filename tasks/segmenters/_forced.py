"""Where each sentence of a text is spoken, by the emissions of a CTC model.

The likeliest path of the whole text through them (`ctc_path.py`) says when each token is heard,
which sentences are skipped, and which speech is not in the text. A sentence's confidence is the
geometric mean of its tokens' probabilities, each at its likeliest frame. As with a recogniser
(`_by_words.py`), a sentence begins and ends in the adjacent pause; frames of other speech count as
words.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise

import numpy as np

from ..plugins.contracts.segmenters import RecordingTranscript
from ..recording import TimedWord
from ..scoring import ctc_path
from ..scoring.alphabet import Spelling
from ._sentences import Pauses, Sentence, sentences

LEAST_SURE = 0.3  # least confidence of a sentence that was said


def spoken(text: str, heard: RecordingTranscript) -> list[Sentence]:
    """All sentences of the text in order; the spans of found ones ascend and do not overlap."""
    written = sentences(text)
    emissions = heard.emissions
    if emissions is None or not emissions.pieces:
        return [Sentence(sentence, None, 0.0) for sentence in written]
    spelling = Spelling(emissions.alphabet)
    spelled = [spelling.words(sentence, heard.language or "") for sentence in written]
    tokens = [[*chain.from_iterable(words)] for words in spelled]
    places = [n for n, numbers in enumerate(tokens) if numbers]  # of sentences with tokens
    whole = np.array([*chain.from_iterable(tokens)], np.int64)
    edges = np.cumsum([0, *(len(tokens[n]) for n in places)])
    frames = np.concatenate([scores for _, _, scores in emissions.pieces])
    path = ctc_path.align(frames, whole, edges[:-1], emissions.alphabet.blank)
    sure = list(ctc_path.confidence(frames, whole, path))
    # The pieces of the recording are concatenated without the pauses between them.
    spans = [
        np.linspace(start, start + seconds, len(scores) + 1)
        for start, seconds, scores in emissions.pieces
    ]
    starts, ends = np.concatenate([s[:-1] for s in spans]), np.concatenate([s[1:] for s in spans])
    result = [Sentence(sentence, None, 0.0) for sentence in written]
    words: list[TimedWord] = []
    own_words: dict[int, tuple[TimedWord, TimedWord]] = {}  # first and last one of a sentence
    beside = ~np.isin(frames.argmax(axis=1), spelling.silent)
    for n, (low, high) in zip(places, pairwise(edges.tolist()), strict=True):
        logs = np.log(np.maximum(sure[low:high], 1e-9))
        result[n] = replace(result[n], match=float(np.exp(logs.mean())))
        if result[n].match < LEAST_SURE:
            continue
        beside[path.starts[low] : path.ends[high - 1]] = False
        begin, index = len(words), low
        for word in spelled[n]:
            head, tail = path.starts[index], path.ends[index + len(word) - 1] - 1
            words.append(TimedWord("", float(starts[head]), float(ends[tail])))
            index += len(word)
        own_words[n] = words[begin], words[-1]
    speech_edges = [*chain.from_iterable(heard.speech)]
    beside &= np.searchsorted(speech_edges, starts, "right") % 2 == 1  # a pause has no speech
    strange = zip(starts[beside].tolist(), ends[beside].tolist(), strict=True)
    words += [TimedWord("", start, end) for start, end in strange]
    words.sort(key=lambda word: word.start)
    order = {id(word): index for index, word in enumerate(words)}
    pauses = Pauses(words, heard.speech)
    for n, (first, last) in own_words.items():
        span = pauses.around(order[id(first)], order[id(last)])
        result[n] = replace(result[n], span=span if span[1] > span[0] else None)
    return result
