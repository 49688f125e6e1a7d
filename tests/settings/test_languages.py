"""Languages in settings: what is no code, or unknown to the recogniser, is refused before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from faster_whisper.tokenizer import _LANGUAGE_CODES

from flows import checks, settings
from tasks.asr import faster_whisper, moonshine, onnx_asr, sherpa_onnx
from tasks.base import language_codes
from tasks.base.errors import ConfigError
from tasks.settings.job import Job
from tests.helpers import corpus, tiny_onnx

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
    ("stated", "written"),
    [
        ("english", 'write "en"'),
        ("English", 'write "en"'),
        ("Norwegian", 'write "no"'),
        ("javanese", 'write "jv"'),
        ("Chinese (Taiwan)", 'write "zh"'),
        ("klingonese", 'write "en", "es" or "yue"'),
        ("e", 'write "en", "es" or "yue"'),
    ],
)
def test_a_name_is_no_code(tmp_path: Path, stated: str, written: str) -> None:
    """Every clip failed instead, after hours of filtering."""
    expected = f"language of the source 'small': {stated!r} is not a language code; {written}"
    assert refused(tmp_path, stated, WHISPER) == expected
    assert refused(tmp_path, stated, {"use": "fake"}) == expected
    said = refused(tmp_path, None, {"use": "fake", "language": stated})
    assert said == expected.replace("source 'small'", "recogniser fake")


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
    assert "the language 'eng'; write \"en\")" in refused(tmp_path, "eng", WHISPER)
    assert "'tlh'" in refused(tmp_path, None, {**WHISPER, "language": "tlh"})
    asked(tmp_path, "tlh")  # another recogniser may hear it
    # A further recogniser that refuses a clip leaves it to the others.
    asked(tmp_path, "zh", {"use": "fake"}, {"use": "moonshine"})
    assert "moonshine hears English only" in refused(tmp_path, "zh", {"use": "moonshine"})


def test_the_list_of_whisper_is_the_engines() -> None:
    assert {*language_codes.WHISPER} == {*_LANGUAGE_CODES}


def test_recognisers_refuse_what_they_would_refuse_clip_by_clip(tmp_path: Path) -> None:
    whisper = faster_whisper.Settings()
    assert faster_whisper.language_fault(whisper, "fil-PH") is None
    assert moonshine.language_fault(moonshine.Settings(), "en-GB") is None
    paraformer = sherpa_onnx.Settings(family="paraformer")
    assert sherpa_onnx.language_fault(paraformer, "cmn-Hans") is None
    assert sherpa_onnx.language_fault(paraformer, "ja") == "paraformer hears zh, en only, not 'ja'"
    for name in ("whisper", "canary", "nemo_ctc"):
        home = tmp_path / name
        home.mkdir()
        getattr(tiny_onnx, name)(home)
        told = onnx_asr.Settings(model=str(home))
        assert onnx_asr.language_fault(told, "de") is None
        assert onnx_asr.language_fault(told, "de-CH") is None
        unknown = onnx_asr.language_fault(told, "xx")
        assert unknown == (None if name == "nemo_ctc" else language_codes.unknown("xx"))


def test_a_line_of_a_list_in_an_unknown_language_fails_alone(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    rows = [{"wav": f"r0{n}.wav", "txt": "a text", "language": each}
            for n, each in enumerate(("english", "en-US"))]  # fmt: skip
    (tmp_path / "in/list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked(tmp_path, None, WHISPER, kind="jsonl", path=str(tmp_path / "in/list.jsonl"))
    assert language_codes.unknown("english") == (
        "the model does not know the language 'english'; write \"en\""
    )
