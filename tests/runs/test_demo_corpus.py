"""The demo corpus: the same bytes each time, written once, and what it promises is in it."""

import hashlib
import json
from pathlib import Path

import pytest

from uttermill.flows.demo import corpus as demo
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings import Plugin, Source, TranscribeSettings

pytest.importorskip("espeakng_loader")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "corpus"
    demo.make_corpus(folder)
    return folder


def digests(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.mark.nightly
def test_contents(corpus: Path) -> None:
    import soundfile

    lines = [json.loads(x) for x in (corpus / "sentences.jsonl").read_text().splitlines()]
    assert len(lines) == 56
    assert all((corpus / x["audio_filepath"]).is_file() and x["text"] for x in lines)
    assert len({x["text"] for x in lines}) == 56
    languages = [x["audio_filepath"].split("/")[1] for x in lines]
    assert [languages.count(code) for code in ("en", "es", "de")] == [34, 16, 6]
    assert {Path(x["audio_filepath"]).suffix for x in lines} == {
        ".wav", ".flac", ".mp3", ".ogg", ".m4a",
    }  # fmt: skip
    assert soundfile.info(corpus / "long" / "lighthouse.mp3").duration == pytest.approx(300, abs=1)
    assert len(list((corpus / "odds").iterdir())) == 11


@pytest.mark.nightly
def test_odds_are_what_they_are_called(corpus: Path) -> None:
    import numpy as np
    import soundfile

    odds = corpus / "odds"
    assert (odds / "empty.wav").stat().st_size == 0
    assert soundfile.info(odds / "no_frames.wav").frames == 0
    assert not soundfile.read(odds / "silence.wav")[0].any()
    assert not np.isfinite(soundfile.read(odds / "not_a_number.wav")[0]).all()
    clipped = soundfile.read(odds / "clipped.wav")[0]
    assert np.mean(np.abs(clipped) > 0.99) > 0.01
    assert soundfile.read(odds / "opposite_channels.flac")[0].mean(axis=1).any() == np.False_


@pytest.mark.nightly
def test_an_unfinished_corpus_is_finished_with_the_same_bytes(corpus: Path) -> None:
    """Also: the bytes depend neither on the clock nor on chance, since all are made again."""
    want = digests(corpus)
    lost = corpus / "sentences" / "en" / "004.ogg"
    kept = corpus / "long" / "lighthouse.mp3"
    stamp = kept.stat().st_mtime_ns
    lost.unlink()
    (corpus / "sentences" / "en" / "001.flac").write_bytes(b"half")
    (corpus / demo.MARKER).unlink()
    demo.make_corpus(corpus)
    assert digests(corpus) == want
    assert kept.stat().st_mtime_ns == stamp


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"holiday\.jpg"):
        demo.make_corpus(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["holiday.jpg"]


def test_no_voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"uttermill\[demo\]"):
        demo.make_corpus(tmp_path)
    assert not (tmp_path / demo.MARKER).exists()


@pytest.mark.full
def test_settings_are_understood(corpus: Path) -> None:
    listed = []
    for source in demo.make_corpus(corpus):
        module, settings = plugins.resolve_source(Source.model_validate(source))
        listed.append(len(list(module.recordings(settings))))
    assert listed == [56, 1, 11]
    verdicts = TranscribeSettings.model_validate(demo.DEMO_SETTINGS["transcribe"]).verdicts
    assert [v.use for v in verdicts] == ["empty_text", "language"]
    for verdict in verdicts:
        assert isinstance(verdict, Plugin)
        plugins.TEXT.resolve(verdict)
