"""Tiny models with the interfaces of large ones: right names, types and shapes, and weights drawn
from a seed. What they hear depends on the samples, and means nothing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

WIDTH = 8  # of encoders
PIECES = ("▁the", "▁cat", "▁sat", "s", "ing", ".", "▁on")
Array = np.ndarray[Any, Any]
Shape = Sequence[int | str]


def drawn(*shape: int, seed: int = 0, scale: float = 3.0) -> Array:
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def save(
    path: Path, written: str, metadata: Mapping[str, str] | None = None, **held: Array | list[int]
) -> None:
    """A graph as ONNX writes one: `name (inputs) => (outputs) { nodes }`; `held`: its constants."""
    graph = onnx.parser.parse_graph(written)
    for name, value in held.items():
        stored = np.array(value, np.int64) if isinstance(value, list) else np.asarray(value)
        graph.initializer.append(numpy_helper.from_array(stored, name))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    helper.set_model_props(model, dict(metadata or {}))
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())


def of_shape(shape: Shape) -> str:
    return f"float[{','.join(map(str, shape))}]"


def separator(path: Path, shape: Shape, gain: float) -> None:
    """A graph with the interface of UVR-MDX's, [1, 4, dim_f, dim_t]: `gain` of what it hears."""
    kind = of_shape(shape)
    nodes = "{ output = Mul(input, gain) }"
    save(path, f"tiny ({kind} input) => ({kind} output) {nodes}", gain=np.array([gain], np.float32))


def _vocabulary(path: Path, pieces: Sequence[str] = (*PIECES, "<blk>")) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{piece} {i}\n" for i, piece in enumerate(pieces)), "utf-8")


def _config(home: Path, **facts: Any) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.json").write_text(json.dumps(facts))


#: Every nth frame of features [b,t,f].
EVERY: dict[str, Any] = {"first": [0], "last": [2**40], "axis": [1]}


def _strided(source: str, out: str) -> str:
    """Features [b,f,t] as frames [b,t/every,WIDTH or V] times the constant W."""
    return f"""
        frames = Transpose <perm=[0,2,1]> ({source})
        some = Slice(frames, first, last, axis, every)
        {out} = MatMul(some, W)"""


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
    size = len(PIECES) + 1
    graph = f"""
    ctc (float[b,{features},t] {signal}, int64[b] {length}) => (float[b,s,{size}] {out}) {{
        {_strided(signal, "scores")}
        {out} = LogSoftmax <axis=-1> (scores)
    }}"""
    save(path, graph, W=drawn(features, size, scale=0.3), every=[every], **EVERY)


def nemo_transducer(home: Path, durations: int = 5) -> None:
    """Parakeet TDT; without durations, RNN-T: encoder, decoder with joint, vocab.txt."""
    encoder = f"""
    encoder (float[b,80,t] audio_signal, int64[b] length)
    => (float[b,{WIDTH},s] outputs, int64[b] encoded_lengths) {{
        {_strided("audio_signal", "wide")}
        outputs = Transpose <perm=[0,2,1]> (wide)
        up = Add(length, less)
        encoded_lengths = Div(up, every)
    }}"""
    weight = drawn(80, WIDTH, scale=0.2)
    save(home / "encoder-model.onnx", encoder, W=weight, less=[7], every=[8], **EVERY)
    size = len(PIECES) + 1 + durations
    bias = np.zeros((1, 1, size), np.float32)
    if durations:
        bias[..., len(PIECES) + 2] = 50.0  # each token lasts one frame
    graph = f"""
    joint (float[b,{WIDTH},t] encoder_outputs, int32[b,u] targets, int32[b] target_length,
           float[2,b,16] input_states_1, float[2,b,16] input_states_2)
    => (float[b,t,1,{size}] outputs, float[2,b,16] output_states_1,
        float[2,b,16] output_states_2) {{
        frame = Transpose <perm=[0,2,1]> (encoder_outputs)
        heard = MatMul(frame, W)
        before = Gather(E, targets)
        sum = Add(heard, before)
        joined = Add(sum, bias)
        outputs = Unsqueeze(joined, one)
        output_states_1 = Identity(input_states_1)
        output_states_2 = Identity(input_states_2)
    }}"""
    save(
        home / "decoder_joint-model.onnx", graph, W=drawn(WIDTH, size, seed=1),
        E=drawn(len(PIECES) + 1, size, seed=2, scale=0.1), bias=bias, one=[2],
    )  # fmt: skip
    _vocabulary(home / "vocab.txt")
    kind = "nemo-conformer-tdt" if durations else "nemo-conformer-rnnt"
    _config(home, model_type=kind, features_size=80, subsampling_factor=8, max_tokens_per_step=1)


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
    encoder = f"""
    encoder (float[b,80,t] audio_signal, int64[b] length)
    => (float[b,s,{WIDTH}] encoder_embeddings, int64[b,s] encoder_mask) {{
        {_strided("audio_signal", "encoder_embeddings")}
        flat = ReduceSum <keepdims=0> (encoder_embeddings, last_axis)
        some_ints = Cast <to=7> (flat)
        none = Sub(some_ints, some_ints)
        encoder_mask = Add(none, whole)
    }}"""
    save(
        home / "encoder-model.onnx", encoder, W=drawn(80, WIDTH, scale=0.2), last_axis=[2],
        whole=[1], every=[8], **EVERY,
    )  # fmt: skip
    tokens = [*CANARY, *PIECES]
    decoder = f"""
    decoder (int64[b,u] input_ids, float[b,s,{WIDTH}] encoder_embeddings,
             int64[b,s] encoder_mask, float[1,b,m,{WIDTH}] decoder_mems)
    => (float[b,u,{len(tokens)}] logits, float[1,b,n,{WIDTH}] decoder_hidden_states) {{
        mean = ReduceMean <axes=[1], keepdims=1> (encoder_embeddings)
        heard = MatMul(mean, W)
        follows = Gather(F, input_ids)
        raw = Add(follows, heard)
        logits = LogSoftmax <axis=-1> (raw)
        memory = Gather(M, input_ids)
        layer = Unsqueeze(memory, zero)
        decoder_hidden_states = Concat <axis=2> (decoder_mems, layer)
    }}"""
    follows = _ending(tokens, [p for p in PIECES if p != "."], "<|endoftext|>")
    save(
        home / "decoder-model.onnx", decoder, W=drawn(WIDTH, len(tokens), seed=4), F=follows,
        M=drawn(len(tokens), WIDTH, seed=5), zero=[0],
    )  # fmt: skip
    path = home / "vocab.txt"
    path.write_text("".join(f"{'▁' if t == ' ' else t} {i}\n" for i, t in enumerate(tokens)))
    _config(home, model_type="nemo-conformer-aed", features_size=80, max_sequence_length=40)


def zipformer(home: Path) -> None:
    """Icefall's transducer: am-onnx/{encoder,decoder,joiner}.onnx, lang/tokens.txt."""
    size, lang = len(PIECES) + 1, home / "am-onnx"
    encoder = f"""
    encoder (float[b,t,80] x, int64[b] x_lens)
    => (float[b,s,{WIDTH}] encoder_out, int64[b] encoder_out_lens) {{
        some = Slice(x, first, last, axis, every)
        encoder_out = MatMul(some, W)
        up = Add(x_lens, less)
        encoder_out_lens = Div(up, every)
    }}"""
    weight = drawn(80, WIDTH, scale=0.05)
    save(lang / "encoder.onnx", encoder, W=weight, less=[3], every=[4], **EVERY)
    decoder = f"""
    decoder (int64[b,2] y) => (float[b,{WIDTH}] decoder_out) {{
        both = Gather(E, y)
        decoder_out = ReduceMean <axes=[1], keepdims=0> (both)
    }}"""
    save(lang / "decoder.onnx", decoder, E=drawn(size, WIDTH, seed=2, scale=0.5))
    joiner = f"""
    joiner (float[b,{WIDTH}] encoder_out, float[b,{WIDTH}] decoder_out)
    => (float[b,{size}] logit) {{
        both = Add(encoder_out, decoder_out)
        logit = MatMul(both, W)
    }}"""
    save(lang / "joiner.onnx", joiner, W=drawn(WIDTH, size, seed=3))
    _vocabulary(home / "lang/tokens.txt")
    _config(home, model_type="kaldi-rnnt", features_size=80, subsampling_factor=4)


def whisper(home: Path) -> None:
    """As Optimum exports it: encoder_model.onnx, decoder_model_merged.onnx, two vocabularies."""
    special = ("<|startoftranscript|>", "<|endoftext|>", "<|en|>", "<|de|>", "<|transcribe|>",
               "<|notimestamps|>")  # fmt: skip
    plain = ("Ġthe", "Ġcat", "Ġsat", ".")
    tokens = [*plain, *special]
    encoder = f"""
    encoder (float[b,80,3000] input_features) => (float[b,1500,{WIDTH}] last_hidden_state) {{
        {_strided("input_features", "last_hidden_state")}
    }}"""
    save(home / "onnx/encoder_model.onnx", encoder, W=drawn(80, WIDTH), every=[2], **EVERY)
    follows = _ending(tokens, plain[:3], "<|endoftext|>")
    follows[tokens.index("<|startoftranscript|>")] = -60.0
    follows[tokens.index("<|startoftranscript|>"), tokens.index("<|de|>")] = 60.0
    decoder = f"""
    decoder (int64[b,u] input_ids, float[b,s,{WIDTH}] encoder_hidden_states)
    => (float[b,u,{len(tokens)}] logits) {{
        mean = ReduceMean <axes=[1], keepdims=1> (encoder_hidden_states)
        heard = MatMul(mean, W)
        follows = Gather(F, input_ids)
        logits = Add(follows, heard)
    }}"""
    weight = drawn(WIDTH, len(tokens), seed=4, scale=0.3)
    save(home / "onnx/decoder_model_merged.onnx", decoder, W=weight, F=follows)
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
    graph = f"""
    senses (float[b,t,{_LFR}] x, int32[b] x_length, int32[b] language, int32[b] text_norm)
    => (float[b,s,{size}] logits) {{
        said = MatMul(x, W)
        flat = Gather(P, language)
        first = Unsqueeze(flat, one)
        nothing = Sub(first, first)
        rest = Add(nothing, R)
        scores = Concat <axis=1> (first, rest, said)
        logits = LogSoftmax <axis=-1> (scores)
    }}"""
    facts = {
        "vocab_size": str(size), "blank_id": "0", "lfr_window_size": "7", "lfr_window_shift": "6",
        "normalize_samples": "0", "with_itn": "14", "without_itn": "15", "comment": "tiny",
        "lang_auto": "0", **{f"lang_{code}": str(n) for n, code in enumerate(codes, 1)}, **_NORM,
    }  # fmt: skip
    save(home / "model.onnx", graph, facts, W=weight, P=told, R=rest, one=[1])
    _vocabulary(home / "tokens.txt", tokens)


def paraformer(home: Path) -> None:
    """model.onnx and tokens.txt: three tokens a clip, in parallel."""
    tokens = ["<blank>", "<s>", "</s>", "the", "cat", "你", "好", "<unk>"]
    weight = np.zeros((_LFR, len(tokens)), np.float32)
    weight[:, [0, 1, 2, 7]] = -1.0
    for mel in range(_LFR):  # the loudest quarter of the spectrum is the token
        weight[mel, 3 + mel % 80 // 20] = 1.0
    graph = f"""
    paraformer (float[b,t,{_LFR}] speech, int32[b] speech_lengths)
    => (float[b,u,{len(tokens)}] logits, int32[b] token_num) {{
        some = Slice(speech, first, three, axis)
        logits = MatMul(some, W)
        none = Sub(speech_lengths, speech_lengths)
        token_num = Add(none, count)
    }}"""
    facts = {"vocab_size": str(len(tokens)), "lfr_window_size": "7", "lfr_window_shift": "6"}
    count = np.array([3], np.int32)
    held: dict[str, Any] = {"W": weight, "first": [0], "three": [3], "axis": [1], "count": count}
    save(home / "model.onnx", graph, facts | _NORM, **held)
    _vocabulary(home / "tokens.txt", tokens)


#: Ends of the stretches of AudioSet's list that make groups.
SOUNDS = ("Speech", "Whispering", "Laughter", "Chuckle, chortle", "Singing", "Humming", "Clapping",
          "Dog", "Music", "Scary music", "Silence", "Noise", "Pink noise")  # fmt: skip


def sounds(
    home: Path, shape: Sequence[int | str], *, logits: bool = False, quantised: bool = False
) -> None:
    """A model of sounds, of samples or patches: music is as likely as its input is loud, and
    laughter as it is quiet; its list has a line with a comma."""
    weight = np.zeros((1, len(SOUNDS)), np.float32)
    bias = np.full((1, len(SOUNDS)), -9.0, np.float32)
    place = {name: number for number, name in enumerate(SOUNDS)}
    slope, middle = (2.0, -3.0) if len(shape) > 2 else (40.0, 0.2)
    for name, sign in (("Music", slope), ("Laughter", -slope)):
        weight[0, place[name]], bias[0, place[name]] = sign, -sign * middle
    size = "Abs" if len(shape) < 3 else "Identity"
    nodes = f"""
        mean = ReduceMean <keepdims=0> (size)
        flat = Reshape(mean, one)
        steep = MatMul(flat, W)
        scores = Add(steep, B)
        given = {"Identity" if logits else "Sigmoid"}(scores)"""
    held: dict[str, Any] = {"one": [1, 1], "W": weight, "B": bias}
    kind, nodes = "float", f"size = {size}(x) {nodes} y = Identity(given)"
    if quantised:
        kind = "uint8"
        nodes = nodes.replace(f"size = {size}(x)", "size = DequantizeLinear(x, x_scale, x_zero)")
        nodes = nodes.replace("y = Identity(given)", "y = QuantizeLinear(given, y_scale, y_zero)")
        held |= {"x_scale": np.float32(0.05), "x_zero": np.uint8(144)}
        held |= {"y_scale": np.float32(0.25), "y_zero": np.uint8(128)}
    ends = f"({of_shape(shape)} x) => ({of_shape([1, len(SOUNDS)])} y)".replace("float", kind)
    save(home / "model.onnx", f"sounds {ends} {{ {nodes} }}", **held)
    lines = [f'{number},/m/{number},"{name}"' for number, name in enumerate(SOUNDS)]
    (home / "yamnet_class_map.csv").write_text("\n".join(["index,mid,display_name", *lines]))
