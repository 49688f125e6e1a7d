"""Tiny models with the interfaces of large ones: right names, types and shapes, and weights drawn
from a seed. What they hear depends on the samples, and means nothing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

WIDTH = 8  # of encoders
PIECES = ("▁the", "▁cat", "▁sat", "s", "ing", ".", "▁on")
Shape = Sequence[int | str]


def drawn(*shape: int, seed: int = 0, scale: float = 3.0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def save(
    path: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[int, Shape]],
    outputs: Mapping[str, tuple[int, Shape]],
    constants: Mapping[str, np.ndarray[Any, Any]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    def infos(some: Mapping[str, tuple[int, Shape]]) -> list[Any]:
        return [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in some.items()]

    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "tiny", infos(inputs), infos(outputs), held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    helper.set_model_props(model, dict(metadata or {}))
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


node = helper.make_node


def separator(path: Path, shape: Shape, gain: float) -> None:
    """A graph with the interface of UVR-MDX's, [1, 4, dim_f, dim_t]: `gain` of what it hears."""
    nodes = [node("Mul", ["input", "gain"], ["output"])]
    held = {"gain": np.float32(gain).reshape(1)}
    save(path, nodes, {"input": (T.FLOAT, shape)}, {"output": (T.FLOAT, shape)}, held)


def _vocabulary(path: Path, pieces: Sequence[str] = (*PIECES, "<blk>")) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{piece} {i}\n" for i, piece in enumerate(pieces)), "utf-8")


def _config(home: Path, **facts: Any) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.json").write_text(json.dumps(facts))


def _strided(source: str, out: str, every: int) -> tuple[list[Any], dict[str, Any]]:
    """Features [B,F,T] as frames [B,T/every,WIDTH or V] times the constant W."""
    nodes = [
        node("Transpose", [source], ["frames"], perm=[0, 2, 1]),
        node("Slice", ["frames", "first", "last", "axis", "every"], ["some"]),
        node("MatMul", ["some", "W"], [out]),
    ]
    held = {"first": ints(0), "last": ints(2**40), "axis": ints(1), "every": ints(every)}
    return nodes, held


def nemo_ctc(home: Path) -> None:
    """Parakeet CTC: model.onnx, vocab.txt."""
    _ctc(home / "model.onnx", ("audio_signal", "length", "logprobs"), 80, 8)
    _vocabulary(home / "vocab.txt")
    _config(home, model_type="nemo-conformer-ctc", features_size=80, subsampling_factor=8)


def gigaam_ctc(home: Path) -> None:
    _ctc(home / "v2_ctc.onnx", ("features", "feature_lengths", "log_probs"), 64, 4)
    _vocabulary(home / "v2_vocab.txt")
    _config(home, model_type="gigaam-v2-ctc", features_size=64, subsampling_factor=4)


def _ctc(path: Path, names: tuple[str, str, str], features: int, every: int) -> None:
    signal, length, out = names
    nodes, held = _strided(signal, "scores", every)
    nodes.append(node("LogSoftmax", ["scores"], [out], axis=-1))
    size = len(PIECES) + 1
    save(
        path, nodes,
        {signal: (T.FLOAT, ["b", features, "t"]), length: (T.INT64, ["b"])},
        {out: (T.FLOAT, ["b", "s", size])},
        {**held, "W": drawn(features, size, scale=0.3)},
    )  # fmt: skip


def nemo_transducer(home: Path, durations: int = 5) -> None:
    """Parakeet TDT; without durations, RNN-T: encoder, decoder with joint, vocab.txt."""
    _encoder(home / "encoder-model.onnx", ("audio_signal", "length"),
             ("outputs", "encoded_lengths"), 80, 8)  # fmt: skip
    size = len(PIECES) + 1 + durations
    bias = np.zeros((1, 1, size), np.float32)
    if durations:
        bias[..., len(PIECES) + 2] = 50.0  # each token lasts one frame
    state: tuple[int, Shape] = (T.FLOAT, [2, "b", 16])
    save(
        home / "decoder_joint-model.onnx",
        [
            node("Transpose", ["encoder_outputs"], ["frame"], perm=[0, 2, 1]),
            node("MatMul", ["frame", "W"], ["heard"]),
            node("Gather", ["E", "targets"], ["before"]),
            node("Add", ["heard", "before"], ["sum"]),
            node("Add", ["sum", "bias"], ["joined"]),
            node("Unsqueeze", ["joined", "one"], ["outputs"]),
            node("Identity", ["input_states_1"], ["output_states_1"]),
            node("Identity", ["input_states_2"], ["output_states_2"]),
        ],
        {"encoder_outputs": (T.FLOAT, ["b", WIDTH, "t"]), "targets": (T.INT32, ["b", "u"]),
         "target_length": (T.INT32, ["b"]), "input_states_1": state, "input_states_2": state},
        {"outputs": (T.FLOAT, ["b", "t", 1, size]), "output_states_1": state,
         "output_states_2": state},
        {"W": drawn(WIDTH, size, seed=1), "E": drawn(len(PIECES) + 1, size, seed=2, scale=0.1),
         "bias": bias, "one": ints(2)},
    )  # fmt: skip
    _vocabulary(home / "vocab.txt")
    kind = "nemo-conformer-tdt" if durations else "nemo-conformer-rnnt"
    _config(home, model_type=kind, features_size=80, subsampling_factor=8, max_tokens_per_step=1)


def _encoder(
    path: Path, names: tuple[str, str], out: tuple[str, str], features: int, every: int
) -> None:
    """Outputs [B,WIDTH,T'] and their lengths."""
    nodes, held = _strided(names[0], "wide", every)
    nodes += [
        node("Transpose", ["wide"], [out[0]], perm=[0, 2, 1]),
        node("Add", [names[1], "less"], ["up"]),
        node("Div", ["up", "by"], [out[1]]),
    ]
    save(
        path, nodes,
        {names[0]: (T.FLOAT, ["b", features, "t"]), names[1]: (T.INT64, ["b"])},
        {out[0]: (T.FLOAT, ["b", WIDTH, "s"]), out[1]: (T.INT64, ["b"])},
        {**held, "W": drawn(features, WIDTH, scale=0.2), "less": ints(every - 1),
         "by": ints(every)},
    )  # fmt: skip


CANARY = (" ", "<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|en|>",
          "<|de|>", "<|pnc|>", "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>",
          "<|endoftext|>")  # fmt: skip


def _ending(vocabulary: Sequence[str], words: Sequence[str], end: str) -> np.ndarray[Any, Any]:
    """[V,V] what follows: on a word a full stop, on that the end; on all else a word."""
    size = len(vocabulary)
    place = {token: i for i, token in enumerate(vocabulary)}
    follows = np.full((size, size), -60.0, np.float32)
    for token, row in place.items():
        if token in words:
            follows[row, place["."]] = 60.0
        elif token in (".", end):
            follows[row, place[end]] = 60.0
        else:
            follows[row, [place[word] for word in words]] = 0.0
    return follows


def canary(home: Path) -> None:
    """An attention decoder that is told the language: encoder, decoder, vocab.txt."""
    nodes, held = _strided("audio_signal", "encoder_embeddings", 8)
    nodes += [
        node("ReduceSum", ["encoder_embeddings", "last_axis"], ["flat"], keepdims=0),
        node("Cast", ["flat"], ["some_ints"], to=T.INT64),
        node("Sub", ["some_ints", "some_ints"], ["none"]),
        node("Add", ["none", "whole"], ["encoder_mask"]),
    ]
    save(
        home / "encoder-model.onnx", nodes,
        {"audio_signal": (T.FLOAT, ["b", 80, "t"]), "length": (T.INT64, ["b"])},
        {"encoder_embeddings": (T.FLOAT, ["b", "s", WIDTH]), "encoder_mask": (T.INT64, ["b", "s"])},
        {**held, "W": drawn(80, WIDTH, scale=0.2), "last_axis": ints(2), "whole": ints(1)},
    )  # fmt: skip
    tokens = [*CANARY, *PIECES]
    save(
        home / "decoder-model.onnx",
        [
            node("ReduceMean", ["encoder_embeddings"], ["mean"], axes=[1], keepdims=1),
            node("MatMul", ["mean", "W"], ["heard"]),
            node("Gather", ["F", "input_ids"], ["follows"]),
            node("Add", ["follows", "heard"], ["raw"]),
            node("LogSoftmax", ["raw"], ["logits"], axis=-1),
            node("Gather", ["M", "input_ids"], ["memory"]),
            node("Unsqueeze", ["memory", "zero"], ["layer"]),
            node("Concat", ["decoder_mems", "layer"], ["decoder_hidden_states"], axis=2),
        ],
        {"input_ids": (T.INT64, ["b", "u"]), "encoder_embeddings": (T.FLOAT, ["b", "s", WIDTH]),
         "encoder_mask": (T.INT64, ["b", "s"]), "decoder_mems": (T.FLOAT, [1, "b", "m", WIDTH])},
        {"logits": (T.FLOAT, ["b", "u", len(tokens)]),
         "decoder_hidden_states": (T.FLOAT, [1, "b", "n", WIDTH])},
        {"W": drawn(WIDTH, len(tokens), seed=4), "M": drawn(len(tokens), WIDTH, seed=5),
         "F": _ending(tokens, [p for p in PIECES if p != "."], "<|endoftext|>"), "zero": ints(0)},
    )  # fmt: skip
    path = home / "vocab.txt"
    path.write_text("".join(f"{'▁' if t == ' ' else t} {i}\n" for i, t in enumerate(tokens)))
    _config(home, model_type="nemo-conformer-aed", features_size=80, max_sequence_length=40)


def zipformer(home: Path) -> None:
    """Icefall's transducer: am-onnx/{encoder,decoder,joiner}.onnx, lang/tokens.txt."""
    features, every, size = 80, 4, len(PIECES) + 1
    save(
        home / "am-onnx/encoder.onnx",
        [
            node("Slice", ["x", "first", "last", "axis", "every"], ["some"]),
            node("MatMul", ["some", "W"], ["encoder_out"]),
            node("Add", ["x_lens", "less"], ["up"]),
            node("Div", ["up", "by"], ["encoder_out_lens"]),
        ],
        {"x": (T.FLOAT, ["b", "t", features]), "x_lens": (T.INT64, ["b"])},
        {"encoder_out": (T.FLOAT, ["b", "s", WIDTH]), "encoder_out_lens": (T.INT64, ["b"])},
        {"first": ints(0), "last": ints(2**40), "axis": ints(1), "every": ints(every),
         "W": drawn(features, WIDTH, scale=0.05), "less": ints(every - 1), "by": ints(every)},
    )  # fmt: skip
    save(
        home / "am-onnx/decoder.onnx",
        [
            node("Gather", ["E", "y"], ["both"]),
            node("ReduceMean", ["both"], ["decoder_out"], axes=[1], keepdims=0),
        ],
        {"y": (T.INT64, ["b", 2])}, {"decoder_out": (T.FLOAT, ["b", WIDTH])},
        {"E": drawn(size, WIDTH, seed=2, scale=0.5)},
    )  # fmt: skip
    save(
        home / "am-onnx/joiner.onnx",
        [
            node("Add", ["encoder_out", "decoder_out"], ["both"]),
            node("MatMul", ["both", "W"], ["logit"]),
        ],
        {"encoder_out": (T.FLOAT, ["b", WIDTH]), "decoder_out": (T.FLOAT, ["b", WIDTH])},
        {"logit": (T.FLOAT, ["b", size])}, {"W": drawn(WIDTH, size, seed=3)},
    )  # fmt: skip
    _vocabulary(home / "lang/tokens.txt")
    _config(home, model_type="kaldi-rnnt", features_size=80, subsampling_factor=4)


def whisper(home: Path) -> None:
    """As Optimum exports it: encoder_model.onnx, decoder_model_merged.onnx, two vocabularies."""
    special = ("<|startoftranscript|>", "<|endoftext|>", "<|en|>", "<|de|>", "<|transcribe|>",
               "<|notimestamps|>")  # fmt: skip
    plain = ("Ġthe", "Ġcat", "Ġsat", ".")
    tokens = [*plain, *special]
    save(
        home / "onnx/encoder_model.onnx",
        [
            node("Transpose", ["input_features"], ["frames"], perm=[0, 2, 1]),
            node("Slice", ["frames", "first", "last", "axis", "every"], ["some"]),
            node("MatMul", ["some", "W"], ["last_hidden_state"]),
        ],
        {"input_features": (T.FLOAT, ["b", 80, 3000])},
        {"last_hidden_state": (T.FLOAT, ["b", 1500, WIDTH])},
        {"first": ints(0), "last": ints(2**40), "axis": ints(1), "every": ints(2),
         "W": drawn(80, WIDTH)},
    )  # fmt: skip
    follows = _ending(tokens, plain[:3], "<|endoftext|>")
    follows[tokens.index("<|startoftranscript|>")] = -60.0
    follows[tokens.index("<|startoftranscript|>"), tokens.index("<|de|>")] = 60.0
    save(
        home / "onnx/decoder_model_merged.onnx",
        [
            node("ReduceMean", ["encoder_hidden_states"], ["mean"], axes=[1], keepdims=1),
            node("MatMul", ["mean", "W"], ["heard"]),
            node("Gather", ["F", "input_ids"], ["follows"]),
            node("Add", ["follows", "heard"], ["logits"]),
        ],
        {"input_ids": (T.INT64, ["b", "u"]),
         "encoder_hidden_states": (T.FLOAT, ["b", "s", WIDTH])},
        {"logits": (T.FLOAT, ["b", "u", len(tokens)])},
        {"W": drawn(WIDTH, len(tokens), seed=4, scale=0.3), "F": follows},
    )  # fmt: skip
    places = {token: i for i, token in enumerate(tokens)}
    (home / "vocab.json").write_text(json.dumps({t: places[t] for t in plain}))
    (home / "added_tokens.json").write_text(json.dumps({t: places[t] for t in special}))
    _config(home, model_type="whisper", num_mel_bins=80)


_LFR = 560  # features of seven stacked frames
#: The mean of log-mel energies is about 12.
_NORM = {"neg_mean": ",".join(["-9"] * _LFR), "inv_stddev": ",".join(["1"] * _LFR)}


def sense_voice(home: Path) -> None:
    """model.onnx and tokens.txt: the first four frames are language, mood, event and writing."""
    tokens = ["<blank>", *PIECES, "你", "好", "<|en|>", "<|zh|>", "<|yue|>", "<|ja|>", "<|ko|>",
              "<|NEUTRAL|>", "<|Speech|>", "<|withitn|>", "<|woitn|>"]  # fmt: skip
    size, place = len(tokens), {token: i for i, token in enumerate(tokens)}
    codes = ("en", "zh", "yue", "ja", "ko")
    told = np.full((len(codes) + 1, size), -90.0, np.float32)
    told[0, place["<|en|>"]] = 90.0  # auto
    for number, code in enumerate(codes, 1):
        told[number, place[f"<|{code}|>"]] = 90.0
    rest = np.full((1, 3, size), -90.0, np.float32)
    for number, token in enumerate(("<|NEUTRAL|>", "<|Speech|>", "<|withitn|>")):
        rest[0, number, place[token]] = 90.0
    weight = drawn(_LFR, size, seed=6, scale=0.2)
    weight[:, place["<|en|>"] :] = 0.0
    weight[:, 0] = -1e-3
    save(
        home / "model.onnx",
        [
            node("MatMul", ["x", "W"], ["said"]),
            node("Gather", ["P", "language"], ["flat"]),
            node("Unsqueeze", ["flat", "one"], ["first"]),
            node("Sub", ["first", "first"], ["nothing"]),
            node("Add", ["nothing", "R"], ["rest"]),
            node("Concat", ["first", "rest", "said"], ["scores"], axis=1),
            node("LogSoftmax", ["scores"], ["logits"], axis=-1),
        ],
        {"x": (T.FLOAT, ["b", "t", _LFR]), "x_length": (T.INT32, ["b"]),
         "language": (T.INT32, ["b"]), "text_norm": (T.INT32, ["b"])},
        {"logits": (T.FLOAT, ["b", "s", size])},
        {"W": weight, "P": told, "R": rest, "one": ints(1)},
        {"vocab_size": str(size), "blank_id": "0", "lfr_window_size": "7", "lfr_window_shift": "6",
         "normalize_samples": "0", "with_itn": "14", "without_itn": "15", "comment": "tiny",
         "lang_auto": "0", **{f"lang_{code}": str(n) for n, code in enumerate(codes, 1)}, **_NORM},
    )  # fmt: skip
    _vocabulary(home / "tokens.txt", tokens)


def paraformer(home: Path) -> None:
    """model.onnx and tokens.txt: three tokens a clip, in parallel."""
    tokens = ["<blank>", "<s>", "</s>", "the", "cat", "你", "好", "<unk>"]
    weight = np.zeros((_LFR, len(tokens)), np.float32)
    weight[:, [0, 1, 2, 7]] = -1.0
    for mel in range(_LFR):  # the loudest quarter of the spectrum is the token
        weight[mel, 3 + mel % 80 // 20] = 1.0
    save(
        home / "model.onnx",
        [
            node("Slice", ["speech", "first", "last", "axis"], ["some"]),
            node("MatMul", ["some", "W"], ["logits"]),
            node("Sub", ["speech_lengths", "speech_lengths"], ["none"]),
            node("Add", ["none", "count"], ["token_num"]),
        ],
        {"speech": (T.FLOAT, ["b", "t", _LFR]), "speech_lengths": (T.INT32, ["b"])},
        {"logits": (T.FLOAT, ["b", "u", len(tokens)]), "token_num": (T.INT32, ["b"])},
        {"W": weight, "first": ints(0), "last": ints(3), "axis": ints(1),
         "count": np.array([3], np.int32)},
        {"vocab_size": str(len(tokens)), "lfr_window_size": "7", "lfr_window_shift": "6", **_NORM},
    )  # fmt: skip
    _vocabulary(home / "tokens.txt", tokens)


#: Ends of the stretches of AudioSet's list that make groups.
SOUNDS = ("Speech", "Whispering", "Laughter", "Chuckle, chortle", "Singing", "Humming", "Clapping",
          "Dog", "Music", "Scary music", "Silence", "Noise", "Pink noise")  # fmt: skip


def sounds(home: Path, shape: Shape, *, logits: bool = False, quantised: bool = False) -> None:
    """A model of sounds, of samples or patches: music is as likely as its input is loud, and
    laughter as it is quiet; its list has a line with a comma."""
    weight = np.zeros((1, len(SOUNDS)), np.float32)
    bias = np.full((1, len(SOUNDS)), -9.0, np.float32)
    place = {name: number for number, name in enumerate(SOUNDS)}
    slope, middle = (2.0, -3.0) if len(shape) > 2 else (40.0, 0.2)
    for name, sign in (("Music", slope), ("Laughter", -slope)):
        weight[0, place[name]], bias[0, place[name]] = sign, -sign * middle
    nodes = [
        node("Abs" if len(shape) < 3 else "Identity", ["x"], ["size"]),
        node("ReduceMean", ["size"], ["mean"], keepdims=0),
        node("Reshape", ["mean", "one"], ["flat"]),
        node("MatMul", ["flat", "W"], ["steep"]),
        node("Add", ["steep", "B"], ["scores"]),
        node("Identity" if logits else "Sigmoid", ["scores"], ["given"]),
    ]
    held: dict[str, Any] = {"one": ints(1, 1), "W": weight, "B": bias}
    given = output = T.FLOAT
    if quantised:
        given = output = T.UINT8
        nodes[0] = node("Identity", ["wide"], ["size"])
        nodes.insert(0, node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["wide"]))
        nodes.append(node("QuantizeLinear", ["given", "y_scale", "y_zero"], ["y"]))
        held |= {"x_scale": np.float32(0.05), "x_zero": np.uint8(144)}
        held |= {"y_scale": np.float32(0.25), "y_zero": np.uint8(128)}
    else:
        nodes.append(node("Identity", ["given"], ["y"]))
    ends = {"x": (given, shape)}, {"y": (output, [1, len(SOUNDS)])}
    save(home / "model.onnx", nodes, *ends, {k: np.asarray(v) for k, v in held.items()})
    lines = [f'{number},/m/{number},"{name}"' for number, name in enumerate(SOUNDS)]
    (home / "yamnet_class_map.csv").write_text("\n".join(["index,mid,display_name", *lines]))
