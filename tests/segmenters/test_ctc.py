"""Texts aligned by a CTC model: exact paths, hours in little memory, a recogniser from a folder."""

import itertools
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from tests.helpers import tiny_onnx
from tests.plugins import oracle_ctc
from tests.segmenters.test_alignment import job_of, recorded
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.asr import SpeechClip, ctc
from uttermill.tasks.base.errors import ConfigError, ItemError
from uttermill.tasks.plugins.contracts.asr import Alphabet
from uttermill.tasks.plugins.contracts.segmenters import Emissions, RecordingTranscript
from uttermill.tasks.recording import Locator
from uttermill.tasks.scoring import ctc_path
from uttermill.tasks.scoring.alphabet import Spelling
from uttermill.tasks.segmenters import aligned
from uttermill.tasks.segmenters.aligned import _by_scores
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import recipe
from uttermill.tasks.stages import whole_transcript

Ints = NDArray[np.int64]
RATE = 16_000


# --- the path


def logs(scores: NDArray[np.float64]) -> NDArray[np.float16]:
    found: NDArray[np.float16] = (
        scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    ).astype(np.float16)
    return found


def made(
    sentences: list[Ints], order: list[int | None], vocabulary: int, seed: int = 0
) -> tuple[NDArray[np.float16], dict[int, tuple[int, int]]]:
    """Emissions of sentences in order, None: of something else; first frame of each, and the frame
    after its last token."""
    chance = np.random.default_rng(seed)
    frames: list[int] = []
    places: dict[int, tuple[int, int]] = {}
    for what in order:
        frames += [0] * int(chance.integers(5, 20))
        foreign = chance.integers(1, vocabulary, chance.integers(10, 40))
        begin, before = len(frames), 0
        last = begin
        for token in (foreign if what is None else sentences[what]).tolist():
            frames += [0] * (token == before) + [token] * int(chance.integers(1, 3))
            last = len(frames)
            frames += [0] * int(chance.integers(0, 4))
            before = token
        if what is not None:
            places[what] = begin, last
    frames += [0] * 10
    scores = chance.normal(0, 0.5, (len(frames), vocabulary))
    scores[np.arange(len(frames)), frames] += 7.0
    return logs(scores), places


def text(count: int, vocabulary: int, seed: int = 1, longest: int = 50) -> list[Ints]:
    chance = np.random.default_rng(seed)
    return [chance.integers(1, vocabulary, chance.integers(8, longest)) for _ in range(count)]


def found(emissions: Any, sentences: list[Ints]) -> dict[int, tuple[int, int]]:
    """First and last frame of each sentence that was found."""
    firsts = np.cumsum([0, *map(len, sentences)])
    path = ctc_path.align(emissions, np.concatenate(sentences), firsts[:-1], 0)
    ends = firsts[1:] - 1
    return {
        n: (int(path.starts[first]), int(path.ends[last]))
        for n, (first, last) in enumerate(zip(firsts[:-1], ends, strict=True))
        if path.starts[first] >= 0
    }


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_likeliest_path(seed: int) -> None:
    """Against every path there is, without stars."""
    chance = np.random.default_rng(seed)
    tokens = chance.integers(1, 3, 3)
    emissions = logs(chance.normal(0, 2, (7, 3))).astype(np.float64)
    best = -np.inf
    for labels in itertools.product(range(3), repeat=len(emissions)):
        said = [label for label, _ in itertools.groupby(labels) if label]
        if said == tokens.tolist():
            best = max(best, sum(emissions[t, label] for t, label in enumerate(labels)))
    path = ctc_path.align(emissions, tokens, np.array([0]), 0, ctc_path.Costs(1e6, 1e6))
    frames = np.zeros(len(emissions), int)
    for token, start, end in zip(tokens, path.starts, path.ends, strict=True):
        frames[start:end] = token
    said = [label for label, _ in itertools.groupby(frames.tolist()) if label]
    assert said == tokens.tolist()
    score = sum(emissions[t, label] for t, label in enumerate(frames))
    assert score == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("block", [32, 1024])
def test_sentences_are_found_exactly(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Some are not said, and something else is said between others."""
    monkeypatch.setattr(ctc_path, "BLOCK", block)
    sentences = text(40, 30)
    order: list[int | None] = [n for n in range(40) if n not in (0, 11, 12, 13, 39)]
    order.insert(5, None)
    order[20:20] = [None, None, None]
    order.append(None)
    emissions, places = made(sentences, order, 30)
    assert found(emissions, sentences) == places


def test_a_chapter_that_is_not_read_is_passed_over() -> None:
    sentences = text(160, 30, longest=30)
    emissions, places = made(sentences, [*range(20), *range(140, 160)], 30)
    assert found(emissions, sentences) == places


def test_another_text_is_not_found() -> None:
    emissions, _ = made(text(20, 30), [*range(20)], 30)
    assert len(found(emissions, text(20, 30, seed=7))) <= 1
    assert found(emissions[:0], text(2, 30)) == {}


@pytest.mark.nightly
def test_an_hour_needs_little_memory() -> None:
    """At 12.5 frames a second; the scores of all states would take 5 GB, the choices 1 GB."""
    sentences = text(700, 120, longest=40)
    emissions, places = made(sentences, [*range(700)], 120)
    emissions = emissions[:45_000]
    process, most, done = psutil.Process(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            most = max(most, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    before = process.memory_info().rss
    watcher.start()
    try:
        there = found(emissions, sentences)
    finally:
        done.set()
        watcher.join()
    whole = {n: place for n, place in places.items() if place[1] <= len(emissions)}
    assert len(whole) > 500
    assert {n: there.get(n) for n in whole} == whole
    assert 0 < most - before < 80e6


# --- sentences of a recording


LETTERS = Alphabet(oracle_ctc.TOKENS, 0)
PIECES = Alphabet(("<blk>", "▁the", "▁c", "▁", "a", "t", "at", "s", "e"), 0)


@pytest.mark.parametrize(
    ("alphabet", "sentence", "tokens"),
    [
        (LETTERS, "It's at.", ["i", "t", "'", "s", "|", "a", "t"]),
        (LETTERS, "a 2!", ["a", "|", "t", "w", "o"]),
        (LETTERS, "Ça – é", ["a"]),
        (PIECES, "The cat sat?", ["▁the", "▁c", "at", "▁", "s", "at"]),
        (Alphabet(("<pad>", "|", "A", "B"), 0), "ab b", ["A", "B", "|", "B"]),
        (Alphabet(("[PAD]", "你", "好"), 0), "你好！", ["你", "好"]),
        (LETTERS, "…", []),
    ],
)
def test_texts_are_spelled_with_what_the_model_has(
    alphabet: Alphabet, sentence: str, tokens: list[str]
) -> None:
    words = Spelling(alphabet).words(sentence, "en")
    assert [alphabet.tokens[n] for word in words for n in word] == tokens


def test_confidence_says_how_well_it_was_heard() -> None:
    """The second of three is mumbled: the likeliest token is right half of the time."""
    said = ["one two", "three four", "five six"]
    spelling = Spelling(LETTERS)
    scores: list[Any] = []
    for sure, sentence in zip((9.0, 2.0, 9.0), said, strict=True):
        for token in [0] * 20 + [n for word in spelling.words(sentence, "en") for n in word]:
            for number in (token, 0):
                row = np.zeros(len(LETTERS.tokens))
                row[number] = sure if number else 9.0
                scores.append(row)
    emissions = Emissions(LETTERS, ((1.0, len(scores) * 0.02, logs(np.array(scores))),))
    speech = ((1.0, 1.0 + len(scores) * 0.02),)
    heard = RecordingTranscript((), speech, "en", emissions)
    first, second, third = _by_scores("One two. Three four. Five six.", heard)
    assert min(first.match, third.match) > 0.95
    assert second.match < 0.3
    assert second.span is None
    assert first.span
    assert third.span
    assert first.span[1] <= third.span[0]


def test_a_book_and_its_recording(tmp_path: Path) -> None:
    path, said = recorded(tmp_path)
    lost = "Nobody ever reads this long sentence aloud in any recording."
    written = [*said[:3], lost, *said[4:]]  # the fourth is said, but not written
    job = job_of(tmp_path, path, " ".join(written))
    options = {"use": "tests.plugins.oracle_ctc", "path": str(path)}
    segmenter = Plugin.model_validate({"use": "aligned", "engine": "ctc", "backend": options})
    filters = job.filter.model_copy(update={"segmenter": segmenter})
    published, _ = pipeline.run_here(replace(job, filter=filters))
    rows = pq.read_table(published.path / "utterances.parquet").sort_by("start").to_pylist()
    assert [row["text"] for row in rows] == [*said[:3], *said[4:]]
    assert all(row["alignment"] > 0.8 for row in rows)
    words = json.loads(path.with_suffix(".json").read_text())
    at = 0
    for text_ in said:
        count = len(text_.split())
        begin, end = words[at][1], words[at + count - 1][2]
        at += count
        row = next((r for r in rows if r["text"] == text_), None)
        if row is not None:
            assert abs(row["start"] - begin) <= 0.2
            assert abs(row["end"] - end) <= 0.2
    ledger = pq.read_table(published.path / "ledger.parquet").to_pylist()
    assert [row["detail"] for row in ledger if row["reason"] == "not_in_audio"] == [lost]
    assert any(row["reason"] == "not_in_text" for row in ledger)


def check(segmenter: Plugin) -> None:
    module, own = plugins.SEGMENTERS.resolve(segmenter)
    module.check_weights(own)


def test_the_engine_is_in_the_recipe_and_needs_its_backend() -> None:
    plain = Plugin.model_validate({"use": "aligned", "backend": {"use": "fake"}})
    other = Plugin.model_validate({"use": "aligned", "engine": "ctc", "backend": {"use": "fake"}})
    with pytest.raises(ConfigError, match=r"engine ctc needs the backend ctc.*fake emits no"):
        check(other)
    check(plain)
    assert len({recipe.of_plugin("segmenters", each) for each in (plain, other)}) == 2
    assert not aligned.wants_emissions(aligned.Settings())


# --- the recogniser


TOKENS = ("<blk>", "|", "a", "b", "c", "d")


def model(home: Path, tokens: str = "tokens.txt", frames: int = 320) -> Path:
    """A graph whose frames of 20 ms hear the token whose number is their mean, times 10."""
    graph = f"""
    letters (float[B,N] samples) => (float[B,T,{len(TOKENS)}] logits) {{
        row = Unsqueeze(samples, one)
        mean = AveragePool <kernel_shape=[{frames}], strides=[{frames}]> (row)
        frames = Transpose <perm=[0,2,1]> (mean)
        apart = Sub(frames, centres)
        far = Mul(apart, apart)
        logits = Mul(far, sharp)
    }}"""
    centres = (np.arange(len(TOKENS)) / 10).astype(np.float32)[None, None]
    sharp = np.array(-2000, np.float32)
    tiny_onnx.save(home / "model.onnx", graph, one=[1], centres=centres, sharp=sharp)
    if tokens == "tokens.txt":
        (home / tokens).write_text("".join(f"{t} {n}\n" for n, t in enumerate(TOKENS)))
    else:
        (home / tokens).write_text(json.dumps({t: n for n, t in enumerate(TOKENS)}))
    return home


def samples(said: str) -> NDArray[np.float32]:
    """A frame for each letter: - is the blank."""
    numbers = [0 if c == "-" else TOKENS.index(c) for c in said]
    return np.repeat(np.array(numbers, np.float32) / 10, 320)


def backend(home: Path, **options: Any) -> ctc.Backend:
    return ctc.Backend(ctc.Settings(model=str(home), **options))


@pytest.mark.parametrize("tokens", ["tokens.txt", "vocab.json"])
def test_texts_are_the_likeliest_tokens(tmp_path: Path, tokens: str) -> None:
    engine = backend(model(tmp_path, tokens), word_timestamps=True)
    (heard,) = engine.transcribe([SpeechClip(samples("--aab-b||c-d--"), "en")])
    assert heard.text == "abb cd"
    assert heard.words is not None
    assert [(w.word, round(w.start, 3)) for w in heard.words] == [("abb", 0.04), (" cd", 0.18)]
    assert heard.avg_logprob == pytest.approx(0.0, abs=1e-3)
    scores = engine.emissions(samples("--a|d"))
    assert scores.argmax(axis=1).tolist() == [0, 0, 2, 1, 5]
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1.0, rtol=1e-5)


def test_odd_clips_cost_themselves(tmp_path: Path) -> None:
    engine = backend(model(tmp_path))
    clips = [
        SpeechClip(np.array([0.1, np.nan], np.float32)),
        SpeechClip(np.zeros(0, np.float32)),
        SpeechClip(samples("-a-")),
        SpeechClip(samples("a")[:100]),
    ]
    heard = list(engine.transcribe(clips))
    assert heard[0].error == "samples are NaN or infinite"
    assert [h.text for h in heard[1:3]] == ["", "a"]
    assert heard[3].error is None


def test_samples_are_scaled_where_the_model_says_so(tmp_path: Path) -> None:
    home = model(tmp_path)
    (home / "preprocessor_config.json").write_text('{"do_normalize": true}')
    given = samples("--a|d") + 5.0
    scaled = (given - given.mean()) / given.std()
    found = backend(home).emissions(given)
    (home / "preprocessor_config.json").write_text('{"do_normalize": false}')
    np.testing.assert_allclose(found, backend(home).emissions(scaled), atol=0.5)
    identities = [ctc.weights(ctc.Settings(model=str(home)))]
    (home / "preprocessor_config.json").unlink()
    identities.append(ctc.weights(ctc.Settings(model=str(home))))
    assert len({*identities}) == 2


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda home: (home / "model.onnx").unlink(), "lacks model.onnx"),
        (lambda home: (home / "tokens.txt").unlink(), "lacks model.onnx or its tokens"),
        (lambda home: (home / "tokens.txt").write_text("a 0\nb 1\n"), "has no blank token"),
        (lambda home: (home / "tokens.txt").write_text("<blk> 0\nb 7\n"), "holds no tokens"),
        (lambda home: (home / "tokens.txt").write_text("<blk> zero\n"), "holds no tokens"),
        (lambda home: (home / "model.onnx").write_bytes(b"none"), "cannot be loaded"),
    ],
)
def test_missing_and_broken_models_are_refused(tmp_path: Path, spoil: Any, words: str) -> None:
    home = model(tmp_path)
    spoil(home)
    with pytest.raises(ConfigError, match=words):
        backend(home)


def test_another_number_of_tokens_costs_the_recording(tmp_path: Path) -> None:
    home = model(tmp_path / "model")
    (home / "tokens.txt").write_text("<blk> 0\n| 1\na 2\n")
    (heard,) = backend(home).transcribe([SpeechClip(samples("-a-"))])
    assert "which do not fit the 3 tokens" in str(heard.error)
    path, _ = recorded(tmp_path)
    chosen = Plugin.model_validate({"use": "ctc", "model": str(home)})
    with pytest.raises(ItemError, match="which do not fit the 3 tokens"):
        whole_transcript.transcribed(Locator(str(path)), chosen, "en", emitting=True)


def test_it_says_what_it_can(tmp_path: Path) -> None:
    home = model(tmp_path)
    (home / "README.md").write_text("---\nlicense: mit\nlanguage: en\n---\n")
    chosen = Plugin.model_validate({"use": "ctc", "model": str(home)})
    recogniser, own = plugins.ASR.resolve(chosen)
    able = recogniser.abilities(own)
    assert (able.licence, able.languages, able.longest) == ("mit", ("en",), 30.0)
    with pytest.raises(ConfigError, match="needs the folder of a model"):
        recogniser.weights(ctc.Settings())


def _outside(home: Path, location: str) -> None:
    """Let a constant of a model lie in another file."""
    path = home / "model.onnx"
    graph = onnx.load(path)
    tensor = next(each for each in graph.graph.initializer if each.name == "centres")
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(graph.SerializeToString())


@pytest.mark.parametrize("location", ["../secret", "link", "/etc/passwd", "inside"])
def test_weights_outside_of_the_model_folder_are_refused(tmp_path: Path, location: str) -> None:
    """ONNX Runtime sees to it; the versions that we allow all do."""
    home = tmp_path / "model"
    home.mkdir()
    model(home)
    (tmp_path / "secret").write_bytes(bytes(1 << 20))
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "inside").write_bytes(bytes(1 << 20))
    _outside(home, location)
    if location == "inside":
        backend(home)
        return
    with pytest.raises(ConfigError, match=r"cannot be loaded: .*(escapes model dir|Absolute)"):
        backend(home)


def test_lists_too_large_for_a_model_are_not_read(tmp_path: Path) -> None:
    model(tmp_path)
    with (tmp_path / "tokens.txt").open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match="lists and settings have at most"):
        backend(tmp_path)
