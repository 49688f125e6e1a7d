"""Verdicts on text: reasons, values and what a null does."""

import json
import random
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.flows import checks
from uttermill.flows.settings import of_mapping
from uttermill.tasks import plugins
from uttermill.tasks.asr import SpeechClip, fake
from uttermill.tasks.base import shelves
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.base.schema import TRANSCRIPTS
from uttermill.tasks.plugins.rules import Limit, Rejection, Rule, Within, columns, judge
from uttermill.tasks.settings import Plugin, TranscribeSettings, roles
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store.text_values import DERIVED
from uttermill.tasks.text import ScoredTranscript, phonemes, words

NAMES = shelves.names("text")
DEFAULT = TranscribeSettings().verdicts
CLOSE, FAR = {"wer": 0.5, "cer": 0.2}, {"wer": 0.51, "cer": 0.4}
#: What is there without a plug-in.
PLAIN = {
    *("text_chars", "wer", "cer", "language_contradiction", "recording_speech"),
    *(*DERIVED, *TRANSCRIPTS.names),
}


def rules(use: str, **options: Any) -> tuple[Rule, ...]:
    module, settings = plugins.TEXT.resolve(Plugin(use=use, **options))
    return tuple(module.verdict(settings))


def measured(heard: ScoredTranscript, *verdicts: Plugin) -> dict[str, Any]:
    """A row as the view has it: the recogniser's columns, and those of the plug-ins."""
    row: dict[str, Any] = {
        "text_chars": len(heard.text.strip()), "language": heard.language,
        "language_probability": heard.language_probability, "avg_logprob": heard.avg_logprob,
        "no_speech_probability": heard.no_speech_probability,
        "compression_ratio": heard.compression_ratio, "wer": heard.wer, "cer": heard.cer,
    }  # fmt: skip
    for plugin in verdicts:
        module, settings = plugins.TEXT.resolve(plugin)
        if hasattr(module, "measure"):
            row.update(module.measure(heard, settings))
    return row


def reason(heard: ScoredTranscript, *verdicts: Plugin) -> str | None:
    row = measured(heard, *verdicts)
    no = judge(row, [r for p in verdicts for r in rules(p.use, **p.options)])
    return no.reason if no else None


@pytest.mark.parametrize(
    ("use", "options", "row", "reason"),
    [
        ("empty_text", {}, {"text_chars": 0}, "empty_text"),
        ("empty_text", {}, {"text_chars": 1}, None),
        ("language", {}, {"language": "de", "language_probability": 0.9}, None),
        ("language", {}, {"language": "de", "language_probability": 0.6}, None),
        ("language", {}, {"language": "de", "language_probability": 0.59}, "language_uncertain"),
        ("language", {}, {"language_probability": 0.3, "avg_logprob": -0.5}, None),
        ("language", {}, {"language_probability": 0.3, "avg_logprob": -0.51},
         "language_uncertain"),
        ("language", {"unless_logprob": None},
         {"language_probability": 0.3, "avg_logprob": -0.1}, "language_uncertain"),
        ("language", {}, {"language": "de", "language_probability": None}, None),
        ("language", {}, {"language": "de", "language_probability": 0.3, **CLOSE}, None),
        ("language", {}, {"language_probability": 0.3, **FAR}, "language_uncertain"),
        ("language", {"unless_wer": None}, {"language_probability": 0.3, **CLOSE},
         "language_uncertain"),
        ("language", {"allowed": ["en", "es"]}, {"language": "de"}, "wrong_language"),
        ("language", {"allowed": ["en", "es"]}, {"language": "de", **CLOSE}, "wrong_language"),
        ("language", {"allowed": ["en", "es"]}, {"language": "es"}, None),
        ("language", {"allowed": ["en"]}, {"language": None}, None),
        ("language", {"allowed": ["en"], "min_probability": 0.5},
         {"language": "en", "language_probability": 0.4}, "language_uncertain"),
        ("no_speech", {}, {"recording_speech": 1.9}, "little_speech"),
        ("no_speech", {}, {"recording_speech": 2.0}, None),
        ("no_speech", {}, {"recording_speech": None}, None),
        ("no_speech", {}, {"recording_speech": 0.5, **CLOSE}, None),
        ("logprob", {}, {"avg_logprob": -1.0}, None),
        ("logprob", {}, {"avg_logprob": -1.01}, "low_logprob"),
        ("logprob", {}, {"avg_logprob": -1.01, **CLOSE}, None),
        ("logprob", {}, {"avg_logprob": None}, None),
        ("completeness", {}, {"speech_without_words": 1.0}, None),
        ("completeness", {}, {"speech_without_words": 1.1}, "text_incomplete"),
        ("completeness", {}, {"speech_without_words": 3.1, **CLOSE}, None),
        ("completeness", {}, {"speech_without_words": None}, None),  # an earlier release's text
        ("no_speech", {}, {"no_speech_probability": 0.9, "avg_logprob": -1.1}, "no_speech"),
        ("no_speech", {}, {"no_speech_probability": 0.9, "avg_logprob": -1.0}, None),
        ("no_speech", {}, {"no_speech_probability": 0.9, "avg_logprob": None}, "no_speech"),
        ("no_speech", {}, {"no_speech_probability": 0.6, "avg_logprob": -1.1}, None),
        ("no_speech", {}, {"no_speech_probability": 0.9, **CLOSE}, None),
        ("no_speech", {"unless_logprob": None},
         {"no_speech_probability": 0.9, "avg_logprob": -0.1}, "no_speech"),
        ("no_speech", {}, {"no_speech_probability": None, "avg_logprob": -3.0}, None),
        ("compression", {}, {"compression_ratio": 2.4}, None),
        ("compression", {}, {"compression_ratio": 2.41}, "compresses_too_well"),
        ("compression", {}, {"compression_ratio": 2.41, **CLOSE}, None),
        ("compression", {}, {"compression_ratio": None}, None),
        ("error_rate", {"max_wer": 0.3}, {"wer": 0.31}, "high_error_rate"),
        ("error_rate", {"max_wer": 0.3}, {"wer": 0.3}, None),
        ("error_rate", {"max_wer": 0.3}, {"wer": None}, None),
        ("error_rate", {}, {"wer": 3.0}, None),
    ],
)  # fmt: skip
def test_verdict(
    use: str, options: dict[str, Any], row: dict[str, Any], reason: str | None
) -> None:
    rejection = judge(row, rules(use, **options))
    assert (rejection.reason if rejection else None) == reason


def test_a_rejection_names_value_and_threshold() -> None:
    rejection = judge({"language": "en", "language_probability": 0.25}, rules("language"))
    assert rejection is not None
    assert (rejection.value, rejection.threshold) == (0.25, 0.6)


def test_a_hole_in_a_text_is_told_with_its_place() -> None:
    row = {"speech_without_words": 3.14, "speech_without_words_start": 12.76}
    no = judge(row, rules("completeness"))
    assert no == Rejection("text_incomplete", 3.14, 1.0, "at 12.8 s")
    row["speech_without_words_start"] = None  # type: ignore[assignment]
    assert judge(row, rules("completeness")) == Rejection("text_incomplete", 3.14, 1.0)


@pytest.mark.parametrize(
    ("row", "spared"),
    [({"y": 1.0}, True), ({"y": 2.0}, True), ({"y": 2.1}, False), ({"y": 0.9}, False),
     ({"y": None}, False), ({}, False), ({"y": 0.0, "z": 5.0}, True)],
)  # fmt: skip
def test_a_limit_spares_where_one_condition_holds(row: dict[str, Any], spared: bool) -> None:
    rule = Limit("x", max=0, high="no", unless=(Within("y", 1.0, 2.0), Within("z", min=5.0)))
    assert (judge({"x": 1.0, **row}, (rule,)) is None) == spared
    assert columns(rule) == {"x", "y", "z"}


@pytest.mark.parametrize("allowed", [["english"], ["EN"], ["e"], [], ["e1"]])
def test_languages_are_codes(allowed: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"text\.language\.allowed"):
        rules("language", allowed=allowed)


@pytest.mark.parametrize("use", NAMES)
def test_every_setting_of_a_verdict_is_a_threshold(use: str) -> None:
    model = plugins.TEXT.load(use).Settings
    if not hasattr(plugins.module("text", use), "questions"):  # to a model, whose name counts
        assert {roles(model)[field] for field in model.model_fields} <= {"threshold"}


@pytest.mark.parametrize("use", NAMES)
def test_columns_are_named_and_explained(use: str) -> None:
    module = plugins.TEXT.load(use)
    own = module.COLUMNS
    assert bool(own) == hasattr(plugins.module("text", use), "measure")
    for column, (unit, doc) in own.items():
        assert column == use or column.startswith(f"{use}_")
        assert unit
        assert doc
    for rule in rules(use):
        assert columns(rule) <= {*own, *PLAIN}
    if own:
        empty = module.measure(ScoredTranscript("", "asr", 0.0), module.Settings())
        assert set(empty) == {*own, *module.ANNOTATIONS}, "every column, whatever the text"


def test_no_two_verdicts_have_a_column() -> None:
    found = [c for use in NAMES for c in plugins.columns("text", use)]
    assert len(found) == len(set(found))
    assert not PLAIN & set(found)


def test_fake_rows_pass_the_default_verdicts() -> None:
    import numpy as np

    chance = np.random.default_rng(0)
    lengths = [0, 1600, 160000, 480000, *range(3200, 80000, 1600)]
    clips = [SpeechClip(chance.random(n).astype(np.float32)) for n in lengths]
    for clip, said in zip(clips, fake.Backend(fake.Settings()).transcribe(clips), strict=True):
        seconds = len(clip.samples) / fake.Backend.RATE
        scores: dict[str, Any] = {
            "language": said.language, "language_probability": said.language_probability,
            "avg_logprob": said.avg_logprob, "compression_ratio": said.compression_ratio,
            "no_speech_probability": said.no_speech_probability, "listened": False,
        }  # fmt: skip
        assert said.text
        assert (
            reason(ScoredTranscript(said.text, "asr", seconds, said.text, **scores), *DEFAULT)
            is None
        )
        for reference in ("x", "a reference that nobody can have said in so little time"):
            heard = ScoredTranscript(
                reference, "reference", seconds, said.text, reference, wer=1.0, cer=1.0, **scores
            )  # fmt: skip
            assert reason(heard, *DEFAULT) is None


@pytest.mark.parametrize(
    "heard",
    [
        # `none`: the source's text, nothing heard
        ScoredTranscript("a reference", "reference", 0.3, None, "a reference", listened=False),
        # recognisers that give a text only
        ScoredTranscript("what was said here", "asr", 1.4, "what was said here"),
        ScoredTranscript("what was said here", "asr", 1.4, "what was said here", language="en"),
    ],
)
def test_recognisers_without_scores_pass_the_default_verdicts(heard: ScoredTranscript) -> None:
    assert reason(heard, *DEFAULT) is None


@pytest.mark.parametrize("seed", range(3))
def test_words_of_plain_texts_are_those_of_any_text(seed: int) -> None:
    """A shorter pattern finds them; a text is not plain with a letter of another script beside."""
    chance = random.Random(seed)
    for _ in range(2000):
        text = "".join(chance.choices("aB3 '-.,_", k=chance.randrange(16)))
        assert words(f"{text} é") == [*words(text), "é"]


# The rule `phonemes`: IPA of texts by espeak-ng, in its column and in the lists of trainers.


SENTENCES = {"r00": "It's 5 o'clock, Anna!", "r01": "Call me at 030 1234567 now.", "r02": "Hello."}


def ipa(text: str, language: str | None, **settings: Any) -> Any:
    heard = ScoredTranscript(text, "reference", 1.0, language=language)
    return phonemes.measure(heard, phonemes.Settings(**settings))["phonemes"]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("It's 5 o'clock, Anna!", "en", "ɪts fˈaɪv əklˈɑːk, ˈænə!"),
        ("He paid $3.50 (at 9:30).", "en",
         "hiː pˈeɪd dˈɑːlɚ θɹˈiː pɔɪnt fˈaɪv zˈiəɹoʊ (æt nˈaɪn θˈɜːɾi)."),
        ("Hello, computer.", "en-GB", "həlˈəʊ, kəmpjˈuːtə."),
        ("Guten Morgen, Team.", "de", "ɡˈuːtən mˈɔɾɡən, tˈiːm."),
        ("¿Qué tal, señor?", "es", "¿kˈe tˈal, seɲˈoɾ?"),
        ("bom dia", "pt_BR", "bˈoŋ dʒˈiæ"),
        ("qapla", "tlhx", None),
        ("hello", None, None),
        ("", "en", None),
    ],
)  # fmt: skip
def test_the_phonemes_of_a_text(text: str, language: str | None, expected: str | None) -> None:
    assert ipa(text, language) == expected
    assert ipa(text, language) == expected, "the same every time"


def test_stress_punctuation_and_voice_are_chosen() -> None:
    text = "Hello, it is Anna."
    assert ipa(text, "en", stress=False) == "həloʊ, ɪɾ ɪz ænə."
    assert ipa(text, "en", punctuation=False) == "həlˈoʊ ɪɾ ɪz ˈænə"
    assert ipa(text, "en", voices={"en": "en-gb"}) == "həlˈəʊ, ɪt ɪz ˈanə."


def test_a_crash_of_the_library_costs_no_other_text() -> None:
    child = phonemes.Child()
    assert child.transcribed(("en-us",), ["hello"]) == ["həlˈoʊ"]
    assert child._process is not None
    child._process.kill()
    child._process.wait()
    assert child.transcribed(("en-us",), ["hello"]) == ["həlˈoʊ"]
    child.close()


def asked(home: Path, *verdicts: dict[str, Any], stress: bool = True, **package: Any) -> Job:
    if not (home / "list.jsonl").exists():
        corpus.listed(corpus.make(home / "in", 3), 3, home / "list.jsonl", **SENTENCES)
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c", "language": "en"}
    chosen = {"use": "phonemes", "stress": stress}
    transcribe = {"backend": {"use": "fake"}, "verdicts": [chosen, *verdicts]}
    return corpus.job(home, sources=[source], transcribe=transcribe, package=package)


@pytest.mark.parametrize("profile", ["styletts2", "kokoro", "piper"])
def test_lists_of_voices_trainers_have_them(tmp_path: Path, profile: str) -> None:
    job = asked(tmp_path, formats=[{"use": "metadata_csv", "profile": profile}])
    version = corpus.run(job)[0].path
    [path] = [*version.glob("metadata_csv/**/metadata.csv"), *version.glob("metadata_csv/*.txt")]
    lines = path.read_text("utf-8").splitlines()
    assert any("|ɪts fˈaɪv əklˈɑːk, ˈænə!" in line for line in lines)
    described = json.loads((version / "dataset.json").read_text())
    release = metadata.version("espeakng-loader")
    assert described["recipes"]["texts"] == {"phonemes": f"espeakng-loader {release}"}
    assert "values" not in described["annotations"]["phonemes"], "nobody chooses by them"


def test_the_column_follows_the_settings_and_hides_what_pii_hides(tmp_path: Path) -> None:
    formats = [{"use": "metadata_csv", "profile": "styletts2", "phonemes": False}]
    first = corpus.run(asked(tmp_path, formats=formats))[0].path
    assert "|It's 5 o'clock, Anna!|" in (first / "metadata_csv/train_list.txt").read_text()
    assert {*column(first)} == {"k0", "k1", "k2"}
    assert column(first)["k0"] == "ɪts fˈaɪv əklˈɑːk, ˈænə!"
    again, counts = corpus.run(asked(tmp_path, stress=False))
    assert {name for name, (computed, _) in counts.items() if computed} == {"package"}
    assert column(again.path)["k0"] == "ɪts faɪv əklɑːk, ænə!"
    masked = column(corpus.run(asked(tmp_path, {"use": "pii"}))[0].path)
    assert masked == {**column(first), "k1": None}


def column(version: Path) -> dict[str, str | None]:
    rows = corpus.utterances(version)
    return {row["source_id"]: row["phonemes"] for row in rows}


def test_what_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.wav").write_bytes((corpus.make(tmp_path / "in", 1) / "r00.wav").read_bytes())
    settings: dict[str, Any] = {
        "sources": [{"path": str(tmp_path / "in")}], "out": str(tmp_path / "out"),
        "transcribe": {"backend": {"use": "fake"}},
        "package": {"formats": [{"use": "metadata_csv", "phonemes": True}]},
    }  # fmt: skip
    with pytest.raises(ConfigError, match="no clip has the column 'phonemes'"):
        checks.check(of_mapping(settings))
    voices = {"en": "en-gb", "de": "dutsch"}
    with pytest.raises(ConfigError, match=r"no voice 'dutsch' \(voices.de\)"):
        phonemes.check_weights(phonemes.Settings(voices=voices))
    monkeypatch.setattr(phonemes, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[phonemes\]'"):
        phonemes.check_weights(phonemes.Settings())
