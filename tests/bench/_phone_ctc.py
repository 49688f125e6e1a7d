"""Makes a model folder for the recogniser `ctc` from a real CTC model of English phones: the one in
the wheel hama 1.3.13 (Apache-2.0, 5 MB). Texts are spelled with espeak-ng's phones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.helpers import timed_speech
from tests.helpers.timed_speech import Floats, Line
from uttermill.tasks.asr import Word, _given_words
from uttermill.tasks.asr.ctc import Backend, Settings

#: espeak-ng's phones that the model writes otherwise.
OTHERWISE = {"ɚ": "ɝ", "ɜː": "ɝ", "ɐ": "ə", "ᵻ": "ɪ", "tʃ": "t͡ʃ", "dʒ": "d͡ʒ", "ɾ": "t", "ː": ""}


def made_folder(wheel: Path, home: Path) -> None:
    """`wheel`: the folder into which pip put hama. The graph's second input, the count of samples,
    becomes a part of the graph."""
    assets = wheel / "hama" / "assets"
    model = onnx.load(str(assets / "asr_waveform_fp16.onnx"))
    graph = model.graph
    del graph.input[1], graph.output[1]
    graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "axis_of_samples"))
    graph.node.insert(0, helper.make_node("Shape", ["waveform"], ["shape_of_waveform"]))
    count = ["shape_of_waveform", "axis_of_samples"]
    graph.node.insert(1, helper.make_node("Gather", count, ["waveform_lengths"]))
    onnx.save(model, str(home / "model.onnx"))
    tokens = [*json.loads((assets / "g2p_vocab.json").read_text("utf-8"))["decoder"]]
    tokens[tokens.index(" ")] = "<unused>"
    numbers = {token: n for n, token in enumerate([*tokens, "<space>", "<blank>"])}
    (home / "vocab.json").write_text(json.dumps(numbers), "utf-8")


class Aligner:
    def __init__(self, wheel: Path, texts: Sequence[str]) -> None:
        """`texts`: all whose words will be asked for."""
        with tempfile.TemporaryDirectory() as home:
            made_folder(wheel, Path(home))
            self._backend = Backend(Settings(model=home))
        alphabet = self._backend.alphabet
        self._numbers = {token: n for n, token in enumerate(alphabet.tokens)}
        words = sorted({_bare(word) for text in texts for word in _given_words.words_of(text)})
        spoken = timed_speech.speak([Line(word, "en-us") for word in words])
        self._tokens = {
            word: [*self._spelled([name for name, _ in said.phones])]
            for word, said in zip(words, spoken, strict=True)
        }

    def _spelled(self, phones: Sequence[str]) -> Iterator[int]:
        for phone in phones:
            name = phone
            for theirs, ours in OTHERWISE.items():
                name = name.replace(theirs, ours)
            pieces = [name] if name in self._numbers else [*name]
            yield from (self._numbers[piece] for piece in pieces if piece in self._numbers)

    def align(self, samples: Floats, text: str) -> tuple[Word, ...]:
        words = _given_words.words_of(f" {text}")
        tokens = [self._tokens[_bare(word)] for word in words]
        emissions, edges = self._backend._whole(samples)
        return _given_words.timed(words, tokens, self._backend.alphabet, emissions, edges)


def _bare(word: str) -> str:
    return word.strip(" .,;:!?").lower()
