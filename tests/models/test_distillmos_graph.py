"""DistillMOS as a graph, against its layers written out plainly, with tensors drawn from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.helpers import tiny_firered
from tests.models.test_weights import of_onnx
from uttermill.tasks.models import distillmos_graph, firered_graph

Floats = NDArray[np.float64]
CHANNELS = (2, 64, 64, 128, 256, 256, 256)
FEATURES, WIDTH, LAYERS, HEADS = 1024, 200, 7, 8
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


def convolved(x: Floats, weight: Any, bias: Any, strides: tuple[int, int]) -> Floats:
    """[channels, bands, frames]; frames are padded by one on each side."""
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, ((0, 0), (0, 0), (1, 1))), (3, 3), axis=(1, 2)
    )[:, :: strides[0], :: strides[1]]
    y = np.tensordot(weight.astype(np.float64), windows, ([1, 2, 3], [0, 3, 4]))
    y += bias[:, None, None]
    return np.where(y > 0, y, 0.1 * y)


def plain(x: Any, tensors: dict[str, NDArray[np.float32]]) -> float:
    """As PyTorch's layers are defined: `x` is one window's spectrum [2, bands, frames]."""

    def linear(x: Floats, name: str) -> Floats:
        return x @ tensors[f"{HOME}.{name}weight"].T + tensors[f"{HOME}.{name}bias"]

    def batch_norm(x: Floats, name: str) -> Floats:
        mean, var = (tensors[f"{HOME}.{name}.running_{kind}"] for kind in ("mean", "var"))
        weight, bias = (tensors[f"{HOME}.{name}.{kind}"] for kind in ("weight", "bias"))
        normed: Floats = (x - mean) / np.sqrt(var + 1e-5) * weight + bias
        return normed

    def layer_norm(x: Floats, name: str) -> Floats:
        weight, bias = (tensors[f"{HOME}.{name}.{kind}"] for kind in ("weight", "bias"))
        off = x - x.mean(axis=1, keepdims=True)
        normed: Floats = off / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * weight + bias
        return normed

    def softmax(x: Floats, axis: int) -> Floats:
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        shares: Floats = powers / powers.sum(axis=axis, keepdims=True)
        return shares

    y = x.astype(np.float64)
    for number in range(6):
        weight, bias = (tensors[f"cnn.cnn.{2 * number}.{kind}"] for kind in ("weight", "bias"))
        y = convolved(y, weight, bias, (1 if number == 0 else 2, 2 if number == 5 else 1))
    y = batch_norm(y.reshape(FEATURES, -1).T, "norm_input")
    y = linear(batch_norm(y, "transformer.norm"), "transformer.linear_proj.")
    y = y + tensors[f"{HOME}.transformer.position_encoding.pe"][0]
    for number in range(LAYERS):
        name = f"transformer.transformer_encoder.layers.{number}"
        parts = np.split(linear(y, f"{name}.self_attn.in_proj_"), 3, axis=1)
        heads = [part.reshape(-1, HEADS, WIDTH // HEADS).swapaxes(0, 1) for part in parts]
        query, key, value = heads
        share = softmax(query @ key.swapaxes(1, 2) / np.sqrt(WIDTH // HEADS), axis=2)
        mixed = (share @ value).swapaxes(0, 1).reshape(-1, WIDTH)
        y = layer_norm(y + linear(mixed, f"{name}.self_attn.out_proj."), f"{name}.norm1")
        wide = np.maximum(linear(y, f"{name}.linear1."), 0)
        y = layer_norm(y + linear(wide, f"{name}.linear2."), f"{name}.norm2")
    y = batch_norm(y, "norm_trans")
    share = softmax(linear(np.maximum(linear(y, "pool.linear1."), 0), "pool.linear2."), axis=0)
    [score] = linear((share * y).sum(axis=0), "pool.linear3.")
    return float(1 + 4 / (1 + np.exp(-score)))


@pytest.mark.nightly
def test_the_graph_computes_what_the_layers_do(tensors: dict[str, NDArray[np.float32]]) -> None:
    model = distillmos_graph.build(tensors)
    x = np.random.default_rng(1).normal(0, 1, (2, 2, 161, 768)).astype(np.float32)
    x[1] *= 0.1
    scores = of_onnx(model, x)
    assert scores.shape == (2,)
    assert scores == pytest.approx([plain(one, tensors) for one in x], abs=1e-4)
    assert abs(scores[0] - scores[1]) > 0.01
    assert of_onnx(model, x[1:]) == pytest.approx(scores[1:], abs=1e-6)
    assert distillmos_graph.build(tensors) == model, "equal bytes"


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
