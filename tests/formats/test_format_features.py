"""The format features: energies number by number beside lhotse's, and tokens of tiny codecs."""

import io
import json
import shutil
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.helpers import corpus
from tests.helpers.tiers import nightly
from uttermill.flows import checks
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks import audio
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.formats import _tars, features
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.runs.executor import Published
from uttermill.tasks.speech.fbank import Fbank

onnx = pytest.importorskip("onnx")

Floats = NDArray[np.float32]
Array = NDArray[Any]
OPSET = 17


def noise(samples: int, seed: int = 0) -> Floats:
    return (0.3 * np.random.default_rng(seed).standard_normal(samples)).astype(np.float32)


def lhotse_energies(samples: Floats, rate: int, **settings: Any) -> Array:
    """lhotse's own, with torch."""
    extractors = pytest.importorskip("lhotse.features.kaldi.extractors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        extractor = extractors.Fbank(extractors.FbankConfig(sampling_rate=rate, **settings))
        return np.asarray(extractor.extract(samples, rate))


@pytest.mark.full
@pytest.mark.parametrize("rate", [16_000, 22_050, *map(nightly, (8000, 24_000))])
@pytest.mark.parametrize("samples", [399, 401, *map(nightly, (400, 5000, 48_123))])
def test_energies_are_those_of_lhotse(samples: int, rate: int) -> None:
    clip = noise(samples)
    energies = features._energies(features.Settings(), rate)
    assert energies is not None
    wanted = lhotse_energies(clip, rate)
    assert energies.frames(samples) == len(wanted)
    np.testing.assert_allclose(energies.log_energies(clip), wanted, atol=2e-3)


@pytest.mark.parametrize("samples", [400, 401, 5000, 48_123])
@pytest.mark.full
def test_energies_are_those_of_wenet(samples: int) -> None:
    """WeNet's are Kaldi's of 16-bit samples; lhotse's code gives these, too, when told to."""
    clip = noise(samples, seed=1)
    energies = features._energies(features.Settings(like="wenet"), 16_000)
    assert energies is not None
    wanted = lhotse_energies(clip * 32768, 16_000, snip_edges=True, high_freq=0.0)
    np.testing.assert_allclose(energies.log_energies(clip), wanted, atol=2e-3)


@pytest.mark.parametrize("like", ["lhotse", "wenet"])
@pytest.mark.parametrize("samples", [1, 79, 60 * 8000 + 1, nightly(130 * 8000 + 77)])
def test_a_long_clip_has_the_energies_of_one_pass(samples: int, like: Any) -> None:
    energies = features._energies(features.Settings(like=like), 8000)
    assert energies is not None
    clip = noise(samples)
    pieces = features._frames(energies, clip)
    assert pieces.shape == (energies.frames(samples), 80)
    np.testing.assert_array_equal(pieces, energies.log_energies(clip))


def graph(place: Path, inputs: Any, nodes: Any, outputs: Any, constants: Any = ()) -> None:
    """Write an ONNX graph."""
    helper = onnx.helper
    made = helper.make_graph(nodes, "codec", inputs, outputs, constants)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(made, opset_imports=opset, ir_version=9)
    onnx.checker.check_model(model)
    place.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, place)


def value(name: str, kind: int, shape: Any) -> Any:
    return onnx.helper.make_tensor_value_info(name, kind, shape)


def waveform_codec(folder: Path, hop: int = 320, codebooks: int = 2, steps: float = 100.0) -> Path:
    """Frames of `hop` samples; codebook k has floor(mean level x steps x (k + 1)) of each."""
    float_, int_ = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    node = onnx.helper.make_node
    scales = np.asarray([steps * (k + 1) for k in range(codebooks)], np.float32)[None, :, None]
    nodes = [
        node("Abs", ["input_values"], ["level"]),
        node("AveragePool", ["level"], ["frames"], kernel_shape=[hop], strides=[hop]),
        node("Mul", ["frames", "scales"], ["scaled"]),
        node("Cast", ["scaled"], ["audio_codes"], to=int_),
    ]
    inputs = [value("input_values", float_, [1, 1, "n"])]
    outputs = [value("audio_codes", int_, [1, codebooks, "t"])]
    constants = [onnx.numpy_helper.from_array(scales, "scales")]
    graph(folder / "encoder_model.onnx", inputs, nodes, outputs, constants)
    (folder / "preprocessor_config.json").write_text(json.dumps({"sampling_rate": 16_000}))
    return folder


def mel_codec(folder: Path) -> Path:
    """As an S3 tokenizer: one token for four frames of Whisper's energies, 25 Hz."""
    float_, int_ = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32
    node = onnx.helper.make_node
    nodes = [
        node("AveragePool", ["feats"], ["pooled"], kernel_shape=[4], strides=[4]),
        node("ArgMax", ["pooled"], ["loudest"], axis=1, keepdims=0),
        node("Cast", ["loudest"], ["wide"], to=int_),
        node("Mul", ["feats_length", "zero"], ["none"]),
        node("Add", ["wide", "none"], ["indices"]),
    ]
    inputs = [value("feats", float_, [1, 128, "t"]), value("feats_length", int_, [1])]
    constants = [onnx.numpy_helper.from_array(np.zeros(1, np.int32), "zero")]
    outputs = [value("indices", int_, [1, "s"])]
    graph(folder / "speech_tokenizer_v2.onnx", inputs, nodes, outputs, constants)
    return folder


def test_a_waveform_codec_gives_its_tokens(tmp_path: Path) -> None:
    codec = features.codec_in(str(waveform_codec(tmp_path / "codec")), None)
    codec.check()
    samples = np.concatenate([np.full(320, 0.25), np.full(320, -0.5)]).astype(np.float32)
    np.testing.assert_array_equal(codec.codes(samples), [[25, 50], [50, 100]])
    facts = codec.described()
    assert facts["frame_rate"] == 50
    assert (facts["codebooks"], facts["sample_rate"]) == (2, 16_000)


#: Outputs of the encoders as Hugging Face exports them, in order: name, whether they are tokens,
#: and how many dimensions stand before [codebooks, frames].
ENCODERS = {
    "encodec": [("audio_codes", True, 2), ("audio_scales", False, 0)],
    "dac": [("quantized_representation", False, 1), ("audio_codes", True, 1)],
    "mimi": [("audio_codes", True, 1)],
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_encoders_of_each_kind_give_tokens(tmp_path: Path, kind: str) -> None:
    """Two codebooks at 50 Hz, wherever the tokens stand among the outputs."""
    node, helper = onnx.helper.make_node, onnx.numpy_helper
    waveform_codec(tmp_path)
    model = onnx.load(tmp_path / "encoder_model.onnx")
    *nodes, last = model.graph.node
    nodes.append(node("Cast", list(last.input), ["tokens"], to=onnx.TensorProto.INT64))
    outputs, constants = [], list(model.graph.initializer)
    for name, tokens, before in ENCODERS[kind]:
        shape = [1] * before + [2, "t"]
        kinds = onnx.TensorProto.INT64 if tokens else onnx.TensorProto.FLOAT
        outputs.append(value(name, kinds, shape))
        constants.append(helper.from_array(np.array([1] * before + [2, -1]), f"shape {name}"))
        source = "tokens" if tokens else "scaled"
        nodes.append(node("Reshape", [source, f"shape {name}"], [name]))
    graph(tmp_path / "encoder_model.onnx", list(model.graph.input), nodes, outputs, constants)
    codec = features.codec_in(str(tmp_path), None)
    codec.check()
    samples = np.concatenate([np.full(320, 0.25), np.full(320, -0.5)]).astype(np.float32)
    np.testing.assert_array_equal(codec.codes(samples), [[25, 50], [50, 100]])
    assert (codec.described()["frame_rate"], codec.described()["codebooks"]) == (50, 2)


def test_masks_and_bandwidths_are_filled_in(tmp_path: Path) -> None:
    float_, int_ = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    node = onnx.helper.make_node
    nodes = [
        node("Cast", ["padding_mask"], ["mask"], to=float_),
        node("Mul", ["input_values", "mask"], ["heard"]),
        node("Mul", ["heard", "bandwidth"], ["scaled"]),
        node("Cast", ["scaled"], ["audio_codes"], to=int_),
    ]
    inputs = [
        value("input_values", float_, [1, 1, "n"]),
        value("padding_mask", onnx.TensorProto.BOOL, [1, 1, "n"]),
        value("bandwidth", float_, [1]),
    ]
    graph(tmp_path / "c" / "a.onnx", inputs, nodes, [value("audio_codes", int_, [1, 1, "n"])])
    codec = features.codec_in(str(tmp_path / "c"), 24_000)
    np.testing.assert_array_equal(codec.codes(np.ones(3, np.float32)), [[6, 6, 6]])


@pytest.mark.full
def test_an_s3_tokenizer_hears_whispers_energies_in_pieces(tmp_path: Path) -> None:
    codec = features.codec_in(str(mel_codec(tmp_path / "s3")), None)
    codec.check()
    assert codec.rate == 16_000
    times = np.arange(70 * 16_000) / 16_000
    low, high = (0.5 * np.sin(2 * np.pi * hz * times).astype(np.float32) for hz in (300, 3000))
    tokens = codec.codes(low)
    assert tokens.shape == (1, 70 * 25)
    assert np.median(tokens) < np.median(codec.codes(high)), "the loudest band is higher"
    assert codec.codes(np.zeros(16_000, np.float32)).shape == (1, 25)


@pytest.mark.full
def test_whispers_energies_are_those_of_faster_whisper() -> None:
    extractor = pytest.importorskip("faster_whisper.feature_extractor")
    samples = noise(32_000)
    wanted = extractor.FeatureExtractor(feature_size=128)(samples, padding=0)
    ours = features._whisper_mels(samples)
    np.testing.assert_allclose(ours, wanted[:, : ours.shape[1]], atol=1e-3)


def empty(folder: Path) -> None:
    folder.mkdir()


def two_graphs(folder: Path) -> None:
    waveform_codec(folder)
    for name in ("a.onnx", "b.onnx"):
        shutil.copy(folder / "encoder_model.onnx", folder / name)
    (folder / "encoder_model.onnx").unlink()


def no_rate(folder: Path) -> None:
    waveform_codec(folder)
    (folder / "preprocessor_config.json").unlink()


def no_json(folder: Path) -> None:
    waveform_codec(folder)
    (folder / "preprocessor_config.json").write_text("sampling_rate: 16000")


def no_graph(folder: Path) -> None:
    waveform_codec(folder)
    (folder / "encoder_model.onnx").write_bytes(b"no graph")


def no_tokens(folder: Path) -> None:
    float_ = onnx.TensorProto.FLOAT
    nodes = [onnx.helper.make_node("Abs", ["x"], ["y"])]
    inputs, outputs = [value("x", float_, [1, "n"])], [value("y", float_, [1, "n"])]
    graph(folder / "encoder.onnx", inputs, nodes, outputs)
    (folder / "config.json").write_text(json.dumps({"sampling_rate": 16_000}))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: None, "is not a folder"),
        (empty, "no ONNX graph"),
        (two_graphs, "2 graphs"),
        (no_rate, "set codec_rate"),
        (no_json, "is not JSON"),
        (no_graph, "is not an ONNX graph"),
        (no_tokens, "does not turn a waveform or `feats` into tokens"),
    ],
)
def test_a_folder_that_is_no_codec_is_refused(
    make: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    make(tmp_path / "codec")
    settings = features.Settings(arrays=("codes",), codec_onnx=str(tmp_path / "codec"))
    with pytest.raises(ConfigError, match=says):
        features.check_weights(settings)


def test_tokens_need_a_codec() -> None:
    with pytest.raises(ConfigError, match="codec_onnx of the format features is missing"):
        features.check_weights(features.Settings(arrays=("codes",)))
    with pytest.raises(ValueError, match="arrays does not list codes"):
        features.Settings(codec_onnx="somewhere")


def published(tmp: Path, *formats: Any) -> Published:
    package = {"tar_hours": 2.5 / 3600, "formats": formats}
    return corpus.run(corpus.job(tmp, package=package))[0]


def arrays(tar: Path) -> dict[str, Array]:
    with tarfile.open(tar) as file:
        members = [m for m in file if m.name.endswith(".npy")]
        return {m.name: np.load(io.BytesIO(_bytes(file, m))) for m in members}


def _bytes(file: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = file.extractfile(member)
    assert stream is not None
    return stream.read()


@pytest.mark.full
def test_a_version_holds_both_and_says_so(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 4)
    codec = waveform_codec(tmp_path / "codec")
    asked = {"use": "features", "arrays": ["fbank", "codes"], "codec_onnx": str(codec)}
    version = published(tmp_path, asked, "wenet_raw").path
    facts = json.loads((version / "dataset.json").read_text())
    assert facts["features"]["features"]["codes"]["frame_rate"] == 50
    assert facts["features"]["features"]["fbank"]["frame_rate"] == 100
    assert str(codec) not in (version / "dataset.json").read_text(), "no path of this machine"
    clips = {path.stem: path for path in version.glob("wenet_raw/**/*.wav")}
    held: dict[str, Array] = {}
    for tar in sorted(version.glob("features/train/*.tar")):
        held |= arrays(tar)
    assert len(held) == 2 * len(clips) > 0
    for name, path in clips.items():
        pcm, rate = audio.decode_int16(path.read_bytes())
        samples = pcm.astype(np.float32) / np.float32(32768)
        np.testing.assert_array_equal(
            held[f"{name}.fbank.npy"],
            Fbank(rate, 80, rate / 2 - 400, whole=False).log_energies(samples),
        )
        codes = held[f"{name}.codes.npy"]
        assert codes.shape == (2, len(pcm) // 320)
        np.testing.assert_array_equal(codes, features.codec_in(str(codec), None).codes(samples))
    shutil.rmtree(codec)
    assert verify(version) == [], "which needs no codec"


@pytest.mark.full
def test_another_codec_writes_its_tokens_again(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    codec = waveform_codec(tmp_path / "codec")
    asked = {"use": "features", "arrays": ["codes"], "codec_onnx": str(codec)}
    first = published(tmp_path, asked)
    again = published(tmp_path, asked)
    assert again.path == first.path, "nothing changed"
    waveform_codec(codec, steps=50.0)
    features.codec_in.cache_clear()  # as in a new process
    second = published(tmp_path, asked)
    assert second.path != first.path
    one, two = (
        {k: v for tar in sorted(p.path.glob("features/**/*.tar")) for k, v in arrays(tar).items()}
        for p in (first, second)
    )
    assert one.keys() == two.keys()
    assert any((one[name] != two[name]).any() for name in one)


def test_a_codec_of_another_rate_is_refused(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 1)
    codec = waveform_codec(tmp_path / "codec")
    asked = {"use": "features", "arrays": ["codes"], "codec_onnx": str(codec), "codec_rate": 24_000}
    source = {"kind": "folder", "path": str(tmp_path / "in")}
    told = {"out": str(tmp_path / "out"), "sources": [source], "package": {"formats": [asked]}}
    with pytest.raises(ConfigError, match="24000"):
        checks.check_wishes(PrepareSettings.model_validate(told))


def test_a_long_id_leaves_room_for_its_suffix() -> None:
    row: Any = {"id": "x" * 95}
    name = f"{features._stem(row)}.{features.FBANK}"
    assert len(name) <= _tars.LONGEST_NAME
    assert len(_tars.key("y" * 95)) == 95, "as before where only short suffixes follow"
