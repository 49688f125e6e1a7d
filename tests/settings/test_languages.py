"""Languages in settings: what is no code, or unknown to the recogniser, is refused before a run."""

from pathlib import Path
from typing import Any

import pytest
from faster_whisper.tokenizer import _LANGUAGE_CODES

from tests.helpers import corpus, tiny_onnx
from tests.sources.test_sources import listed, recs
from uttermill.flows import checks, settings
from uttermill.tasks import plugins
from uttermill.tasks.asr import faster_whisper, moonshine, onnx_asr, sherpa_onnx
from uttermill.tasks.base import language_codes
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings.job import Job

WHISPER = {"use": "faster_whisper"}


def asked(tmp: Path, language: str | None, *backends: dict[str, Any], **source: Any) -> Job:
    corpus.make(tmp / "in", 1)
    one = {"kind": "folder", "path": str(tmp / "in"), "name": "small", "language": language}
    transcribe = {"backends": backends or [{"use": "fake"}]}
    data = {"sources": [{**one, **source}], "out": str(tmp / "out"), "transcribe": transcribe}
    return checks.check_wishes(settings.parse(data))


def refused(tmp: Path, language: str | None, *backends: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        asked(tmp, language, *backends)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ("english", "en"),
        ("English", "en"),
        ("Norwegian", "no"),
        ("javanese", "jv"),
        ("Chinese (Taiwan)", "zh"),
        ("eng", "en"),
        ("deu-AT", "de-AT"),
        ("en_US", "en_US"),
        ("cmn", "cmn"),
        ("tlh", "tlh"),
        ("iw", "he"),
        ("und", ""),
        ("xx", None),
        ("jp", None),
        ("xx-what", None),
        ("klingonese", None),
        ("0", None),
        ("", None),
        ("e", None),
    ],
)
def test_a_language_by_name_or_code(stated: str, code: str | None) -> None:
    assert language_codes.read(stated) == code


def test_a_source_states_its_language_by_name(tmp_path: Path) -> None:
    (dataset,) = plugins.datasets(asked(tmp_path, "English", WHISPER).sources)
    assert dataset.settings.language == "en"


@pytest.mark.parametrize("stated", ["klingonese", "e"])
def test_what_is_no_language_is_refused(tmp_path: Path, stated: str) -> None:
    """Every clip failed instead, after hours of filtering."""
    expected = (
        f"language of the source 'small': {stated!r} is not a language code; "
        'write "en", "es" or "yue"'
    )
    assert refused(tmp_path, stated, WHISPER) == expected
    assert refused(tmp_path, stated, {"use": "fake"}) == expected


def test_a_recogniser_is_told_by_code(tmp_path: Path) -> None:
    said = refused(tmp_path, None, {"use": "fake", "language": "English"})
    assert said == (
        "language of the recogniser fake: 'English' is not a language code; write \"en\""
    )


@pytest.mark.parametrize(
    "stated", ["en", "en-US", "zh-CN", "zh-Hant-TW", "en_us", "yue", "nb", "jv", "cmn_hans_cn", ""]
)
def test_codes_with_regions_and_other_names_are_taken(tmp_path: Path, stated: str) -> None:
    asked(tmp_path, stated, WHISPER)
    asked(tmp_path, stated)
    if stated:
        asked(tmp_path, None, {**WHISPER, "language": stated})


def test_a_code_that_the_recogniser_does_not_know(tmp_path: Path) -> None:
    said = refused(tmp_path, "tlh", WHISPER)
    assert "language of the source 'small'" in said
    assert "the recogniser faster_whisper refuses 'tlh'" in said
    assert "uttermill plugins asr.faster_whisper" in said
    said = refused(tmp_path, None, {**WHISPER, "language": "eng"})
    assert "the language 'eng'; write \"en\"" in said
    assert "'tlh'" in refused(tmp_path, None, {**WHISPER, "language": "tlh"})
    asked(tmp_path, "tlh")  # another recogniser may hear it
    # A further recogniser that refuses a clip leaves it to the others.
    asked(tmp_path, "zh", {"use": "fake"}, {"use": "moonshine"})
    assert "moonshine recognises English only" in refused(tmp_path, "zh", {"use": "moonshine"})


def test_the_list_of_whisper_is_the_engines() -> None:
    assert {*language_codes.WHISPER} == {*_LANGUAGE_CODES}


def test_recognisers_refuse_what_they_would_refuse_clip_by_clip(tmp_path: Path) -> None:
    whisper = faster_whisper.Settings()
    assert faster_whisper.language_fault(whisper, "fil-PH") is None
    assert moonshine.language_fault(moonshine.Settings(), "en-GB") is None
    paraformer = sherpa_onnx.Settings(family="paraformer")
    assert sherpa_onnx.language_fault(paraformer, "cmn-Hans") is None
    assert (
        sherpa_onnx.language_fault(paraformer, "ja")
        == "paraformer recognises zh, en only, not 'ja'"
    )
    for name in ("whisper", "canary", "nemo_ctc"):
        home = tmp_path / name
        home.mkdir()
        getattr(tiny_onnx, name)(home)
        told = onnx_asr.Settings(model=str(home))
        assert onnx_asr.language_fault(told, "de") is None
        assert onnx_asr.language_fault(told, "de-CH") is None
        unknown = onnx_asr.language_fault(told, "xx")
        assert unknown == (None if name == "nemo_ctc" else language_codes.unknown("xx"))


def test_a_line_of_a_list_in_no_language_fails_alone(tmp_path: Path) -> None:
    """As it is listed, before anything is computed."""
    corpus.make(tmp_path / "in", 2)
    rows = [{"wav": f"r0{n}.wav", "txt": "a text", "language": each}
            for n, each in enumerate(("klingonese", "en-US"))]  # fmt: skip
    listing = tmp_path / "in/list.jsonl"
    corpus.jsonl(listing, rows)
    asked(tmp_path, None, WHISPER, kind="jsonl", path=str(listing))
    bad, good = recs(listed("jsonl", listing))
    assert bad.error == ("unreadable", language_codes.fault("klingonese"))
    assert (good.path, good.language, good.error) == ("r01.wav", "en-US", None)
