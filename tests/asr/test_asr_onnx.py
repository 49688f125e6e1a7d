"""Recognisers of ONNX graphs in a folder: the real libraries on tiny models of each family."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import tiny_onnx
from uttermill.tasks.asr import SpeechClip, Transcript, onnx_asr, sherpa_onnx
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.models import onnx_session

RATE = 16000
TRANSDUCERS = ("nemo_transducer", "rnnt", "zipformer")
TIMED = ("nemo_ctc", "gigaam_ctc", *TRANSDUCERS)
FAMILIES: dict[str, Callable[[Path], None]] = {
    "nemo_ctc": tiny_onnx.nemo_ctc,
    "nemo_transducer": tiny_onnx.nemo_transducer,
    "rnnt": lambda home: tiny_onnx.nemo_transducer(home, durations=0),
    "canary": tiny_onnx.canary,
    "gigaam_ctc": tiny_onnx.gigaam_ctc,
    "zipformer": tiny_onnx.zipformer,
    "whisper": tiny_onnx.whisper,
    "sense_voice": tiny_onnx.sense_voice,
    "paraformer": tiny_onnx.paraformer,
}
ONNX = [name for name in FAMILIES if name not in sherpa_onnx.EXAMPLES]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {name: tmp_path_factory.mktemp(name) for name in FAMILIES}
    for name, home in made.items():
        FAMILIES[name](home)
    return made


def backend(name: str, home: Path, **options: Any) -> onnx_asr.Backend | sherpa_onnx.Backend:
    if name in sherpa_onnx.EXAMPLES:
        chosen = {"model": str(home), "family": name, **options}
        return sherpa_onnx.Backend(sherpa_onnx.Settings.model_validate(chosen))
    return onnx_asr.Backend(onnx_asr.Settings(model=str(home), **options))


def noise(seconds: float, seed: int = 0, colour: float = 0.0) -> np.ndarray[Any, Any]:
    """White noise; `colour` above 0 takes away what is high, below 0 what is low."""
    picks = np.random.default_rng(seed).normal(0, 0.1, round(seconds * RATE) + 1)
    return (picks[1:] + colour * picks[:-1]).astype(np.float32)


def clips(language: str | None = None) -> list[SpeechClip]:
    made = [noise(1.0, 1), noise(2.5, 2, 0.9), noise(0.3, 3, -0.9), noise(1.7, 4)]
    return [SpeechClip(samples, language) for samples in made]


def heard(model: onnx_asr.Backend | sherpa_onnx.Backend, *given: SpeechClip) -> list[Transcript]:
    return list(model.transcribe(given))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_depends_on_its_clip_alone(name: str, homes: dict[str, Path]) -> None:
    model = backend(name, homes[name])
    together = heard(model, *clips())
    assert [one.error for one in together] == [None] * 4
    assert all(one.text for one in together)
    alone = [heard(model, clip)[0] for clip in clips()]
    assert [one.text for one in together] == [one.text for one in alone]
    again = heard(backend(name, homes[name], batch_size=1), *clips()[::-1])[::-1]
    assert [one.text for one in again] == [one.text for one in alone]
    if name not in ("whisper", "paraformer"):  # those of so few weights say the same of any noise
        assert len({one.text for one in together}) > 1


@pytest.mark.parametrize("name", TIMED)
def test_tokens_give_words_times_and_scores(name: str, homes: dict[str, Path]) -> None:
    for clip, one in zip(
        clips(), heard(backend(name, homes[name], word_timestamps=True), *clips()), strict=True
    ):
        assert one.words
        assert "".join(word.word for word in one.words) == one.text
        last = 0.0
        for word in one.words:
            assert last <= word.start <= word.end <= len(clip.samples) / RATE
            assert word.probability is not None
            assert 0 < word.probability <= 1
            last = word.end
        assert one.text_end == last
        assert one.avg_logprob is not None
        assert one.avg_logprob < 0


def test_without_times_or_scores_they_are_null(homes: dict[str, Path]) -> None:
    for name in ("whisper", "canary"):
        model = backend(name, homes[name], word_timestamps=True)
        one = heard(model, clips("de")[0])[0]
        assert (one.words, one.text_end, one.language) == (None, None, "de")
        assert (one.avg_logprob is None) == (name == "whisper")
    plain = heard(backend("nemo_ctc", homes["nemo_ctc"]), clips()[0])[0]
    assert plain.words is None  # not asked for
    assert plain.text_end is not None


def test_long_clips_are_cut_and_their_times_go_on(homes: dict[str, Path]) -> None:
    long = noise(5.0, 9)
    long[round(2.4 * RATE) : round(2.6 * RATE)] *= 0.001  # the quietest place
    model = backend("nemo_ctc", homes["nemo_ctc"], max_seconds=3, word_timestamps=True)
    whole = heard(model, SpeechClip(long))[0]
    cut = round(2.45 * RATE), round(2.55 * RATE)
    middle = next(at for at in range(*cut, 80) if at % 80 == 0)
    assert whole.words
    starts = [word.start for word in whole.words]
    assert starts == sorted(starts)
    assert starts[-1] > middle / RATE
    assert "".join(word.word for word in whole.words) == whole.text


@pytest.mark.parametrize("name", FAMILIES)
def test_odd_clips_never_raise(name: str, homes: dict[str, Path]) -> None:
    bad = noise(0.2)
    bad[5] = np.nan
    odd = [np.zeros(0, np.float32), np.zeros(RATE, np.float32), bad, noise(1 / RATE)]
    found = heard(backend(name, homes[name]), *map(SpeechClip, odd))
    assert [one.error for one in found] == [None, None, "samples are NaN or infinite", None]
    assert found[0].text == ""


def test_a_language_that_the_model_lacks_costs_its_clips(homes: dict[str, Path]) -> None:
    for name in ("whisper", "canary"):
        model = backend(name, homes[name])
        one, other = heard(model, SpeechClip(noise(1), "xx"), SpeechClip(noise(1), "de"))
        assert one.error == "ValueError: the model does not know <|xx|>"
        assert other.error is None
    model = backend("sense_voice", homes["sense_voice"])
    told, detected, other = heard(model, *(SpeechClip(noise(1), c) for c in ("zh-CN", None, "de")))
    assert (told.language, told.detected_language) == ("zh", None)
    assert (detected.language, detected.detected_language) == ("en", "en")
    assert other.error == "sense_voice recognises zh, yue, en, ja, ko only, not 'de'"


@pytest.mark.parametrize("name", ["nemo_ctc", "sense_voice"])
def test_weights_are_those_of_the_files(name: str, tmp_path: Path) -> None:
    module: Any = onnx_asr if name == "nemo_ctc" else sherpa_onnx
    FAMILIES[name](tmp_path / "a")
    FAMILIES[name](tmp_path / "b")
    one, other = (module.Settings(model=str(tmp_path / part)) for part in "ab")
    assert module.weights(one) == module.weights(other)
    (tmp_path / "b/unused.txt").write_text("nothing")
    assert module.weights(one) == module.weights(other)
    (tmp_path / "b/model.onnx.data").write_bytes(b"weights beside the graph")
    assert module.weights(one) != module.weights(other)


def test_a_quantized_graph_is_another_model(tmp_path: Path) -> None:
    tiny_onnx.nemo_ctc(tmp_path)
    plain = onnx_asr.Settings(model=str(tmp_path))
    with pytest.raises(ConfigError, match=r"is not a nemo-conformer-ctc model: .*int8"):
        onnx_asr.weights(onnx_asr.Settings(model=str(tmp_path), quantization="int8"))
    (tmp_path / "model.int8.onnx").write_bytes((tmp_path / "model.onnx").read_bytes() + b"\0")
    small = onnx_asr.Settings(model=str(tmp_path), quantization="int8")
    assert onnx_asr.weights(small) != onnx_asr.weights(plain)


def test_missing_and_broken_models_are_refused(tmp_path: Path) -> None:
    for module, words in ((onnx_asr, "onnx_asr needs"), (sherpa_onnx, "sherpa_onnx needs")):
        chosen: Any = module
        with pytest.raises(ConfigError, match=words):
            chosen.weights(chosen.Settings())
        with pytest.raises(ConfigError, match="is not a folder on this machine; models are never"):
            chosen.weights(chosen.Settings(model="istupakov/parakeet"))
    with pytest.raises(ConfigError, match=r"config\.json of .* names none: give one of nemo-"):
        onnx_asr.weights(onnx_asr.Settings(model=str(tmp_path)))
    (tmp_path / "config.json").write_text('{"model_type": "t-one-ctc"}')
    with pytest.raises(ConfigError, match="says 't-one-ctc'"):
        onnx_asr.weights(onnx_asr.Settings(model=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"lacks model\.onnx or model\.int8\.onnx and tokens"):
        sherpa_onnx.weights(sherpa_onnx.Settings(model=str(tmp_path)))
    tiny_onnx.nemo_ctc(tmp_path / "n")
    (tmp_path / "n/model.onnx").write_bytes(b"no graph")
    with pytest.raises(ConfigError, match="cannot be loaded as nemo-conformer-ctc on cpu"):
        onnx_asr.Backend(onnx_asr.Settings(model=str(tmp_path / "n")))
    tiny_onnx.paraformer(tmp_path / "p")
    with pytest.raises(
        ConfigError, match="is not a sense_voice model of sherpa-onnx: its metadata"
    ):
        sherpa_onnx.Backend(sherpa_onnx.Settings(model=str(tmp_path / "p")))
    (tmp_path / "p/tokens.txt").write_text("")
    with pytest.raises(ConfigError, match="cannot be loaded as paraformer"):
        sherpa_onnx.Backend(sherpa_onnx.Settings(model=str(tmp_path / "p"), family="paraformer"))


def test_they_say_what_they_can(homes: dict[str, Path], tmp_path: Path) -> None:
    said = onnx_asr.abilities(onnx_asr.Settings(model=str(homes["gigaam_ctc"])))
    assert (said.longest, said.scores) == (25.0, ("avg_logprob", "word_times"))
    assert (said.licence, said.languages) == (None, None)
    tiny_onnx.whisper(tmp_path)
    (tmp_path / "README.md").write_text(
        "---\nlicense: cc-by-4.0\nlanguage:\n- en\n- de\n---\nWords.\n"
    )
    said = onnx_asr.abilities(onnx_asr.Settings(model=str(tmp_path), max_seconds=20))
    assert (said.longest, said.scores) == (20.0, ())
    assert (said.licence, said.languages) == ("cc-by-4.0", ("en", "de"))
    assert sherpa_onnx.abilities(sherpa_onnx.Settings()).languages == (
        "zh",
        "yue",
        "en",
        "ja",
        "ko",
    )


@pytest.mark.parametrize("error", ["Fail", "RuntimeException"])
def test_what_the_engine_refuses_costs_one_clip(
    error: str, homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    model = backend("nemo_ctc", homes["nemo_ctc"])
    assert isinstance(model, onnx_asr.Backend)
    real = model._model.recognize

    def refuse(batch: list[Any], **options: Any) -> Any:
        if any(len(samples) == 2 * RATE for samples in batch):
            raise getattr(state, error)("no")
        return real(batch, **options)

    monkeypatch.setattr(model._model, "recognize", refuse)
    found = heard(model, SpeechClip(noise(1)), SpeechClip(noise(2)))
    assert [one.error for one in found] == [None, "RuntimeError: ONNX Runtime: no"]


def test_bugs_stay_loud(homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = backend("nemo_ctc", homes["nemo_ctc"])
    assert isinstance(model, onnx_asr.Backend)
    monkeypatch.setattr(model._model, "recognize", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        heard(model, clips()[0])
    import onnx_asr as library

    monkeypatch.setattr(library, "load_model", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        backend("nemo_ctc", homes["nemo_ctc"])


def test_errors_of_onnx_runtime_are_known_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no graph")
    for path in ("text.onnx", "missing.onnx"):
        with pytest.raises(onnx_session.errors()) as told:
            onnx_session.session(str(tmp_path / path))
        assert type(told.value).__module__.startswith("onnxruntime")
    assert not {Exception, ValueError, OSError} & {*onnx_session.errors()}
