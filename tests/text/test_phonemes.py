"""The rule `phonemes`: IPA of texts by espeak-ng, in its column and in the lists of trainers."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.flows import checks
from uttermill.flows.settings import of_mapping
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings.job import Job
from uttermill.tasks.text import ScoredTranscript, phonemes

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
    rows = pq.read_table(version / "utterances.parquet").to_pylist()
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
