"""The language of a text, beside the one that was spoken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers import corpus, corpus_speech
from tests.helpers.fetched import CORPUS
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import loading
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.text import ScoredTranscript, language_agrees

TEXTS = {
    "en": "Please bring two bottles of water and a warm coat.",
    "de": "Bitte bringen Sie zwei Flaschen Wasser und einen Mantel mit.",
    "es": "Por favor, traiga dos botellas de agua y un abrigo.",
    "zh": "请带两瓶水和一件暖和的外套。",
    "ja": "水を二本と暖かいコートを持ってきてください。",
}


def agrees(text: str, language: str | None, wer: float | None = None) -> bool:
    settings = language_agrees.Settings()
    found = language_agrees.measure(ScoredTranscript(text, "asr", 3.0, language=language), settings)
    assert list(found) == list(language_agrees.COLUMNS)
    rules = plugins.TEXT.load("language_agrees").verdict(settings)
    return judge({**found, "wer": wer}, rules) is None


@pytest.mark.parametrize("spoken", TEXTS)
def test_a_text_in_the_language_that_is_spoken_stays(spoken: str) -> None:
    assert {code for code, text in TEXTS.items() if agrees(text, spoken)} == {spoken}
    assert agrees(TEXTS["en"], "de", wer=0.1)  # a reference confirms it


def test_what_cannot_be_judged_is_null() -> None:
    for text, language in (("", "en"), ("Well, yes.", "de"), ("好的", "en"), (TEXTS["en"], None),
                           (TEXTS["en"], "xx")):  # fmt: skip
        heard = ScoredTranscript(text, "asr", 3.0, language=language)
        found = language_agrees.measure(heard, language_agrees.Settings())
        assert found == {"language_agrees": None}


def test_languages_that_are_written_alike_are_one() -> None:
    assert agrees(TEXTS["zh"], "yue")
    assert agrees("Jeg er glad for at se deg her i dag.", "nn")
    assert agrees(TEXTS["en"].upper(), "en-US")


def test_workers_load_it_before_their_first_task(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, transcribe={"verdicts": [{"use": "language_agrees"}]})
    assert loading.modules_of(job)["py3langid.langid"] == "LanguageIdentifier"


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    language_agrees._identifier.cache_clear()
    language_agrees._agreement.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[language-id\]'"):
        agrees(TEXTS["en"], "en")


@pytest.mark.needs("corpus")
def test_texts_of_real_speech() -> None:
    """Of several hundred references none is dropped as it is, and hardly one stays as another
    language's."""
    rows = [*corpus_speech.transcribed(CORPUS)]
    judged = [
        (row["text"], row["language"])
        for row in rows
        if len(row["text"].encode()) >= language_agrees.LEAST_BYTES
    ]
    assert len(judged) > 200
    assert [text for text, language in judged if not agrees(text, language)] == []
    others = [agrees(text, "de" if language == "en" else "en") for text, language in judged]
    assert sum(others) <= 2
