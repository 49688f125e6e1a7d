"""Every setting of every stage and plug-in is in this table: what it is, and what it costs.

A new setting without an entry fails. `recipe`: it can change an output, so its stage and what
follows compute again; `threshold`: taken again for free; `transient`: speed or looks only.
"""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from tests.helpers import corpus, tiers
from uttermill.flows.cluster.settings import ClusterSettings, TlsSettings
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.settings import FilterSettings, Plugin, ResampleSettings
from uttermill.tasks.settings import roles as marked
from uttermill.tasks.settings.transcribe import ServerSettings
from uttermill.tasks.shard_store import recipe

RECIPE, THRESHOLD, TRANSIENT = "recipe", "threshold", "transient"


class Entry(NamedTuple):
    """`other` is a valid value that differs from the default; None: there is no other."""

    role: str
    other: Any = None


NUMBER = Entry(THRESHOLD, 0.001)
STAGES: dict[str, Entry] = {
    "shard.hours": Entry(TRANSIENT, 0.0001),
    "shard.settle_seconds": Entry(TRANSIENT, 0.01),
    "shard.probe_batch": Entry(TRANSIENT, 1),
    "shard.rehash": Entry(TRANSIENT, 1.0),
    "shard.retry": Entry(TRANSIENT, True),
    "filter.segmenter": Entry(RECIPE, {"use": "auto"}),
    "filter.filters": Entry(RECIPE, [{"use": "duration"}, {"use": "file_size"}]),
    "filter.damaged": Entry(THRESHOLD, "keep"),
    "filter.duplicate_files": Entry(THRESHOLD, "keep"),
    "filter.non_finite": Entry(RECIPE, "silence"),
    "filter.max_hours": Entry(THRESHOLD, 47.0),
    "filter.max_expansion": Entry(THRESHOLD, 2999.0),
    "filter.measure_all": Entry(TRANSIENT, True),
    "resample.rate": Entry(RECIPE, 8000),
    "resample.levels": Entry(RECIPE, [{"use": "peak"}]),
    "resample.channels_cancel": Entry(RECIPE, "keep"),
    "resample.mono": Entry(RECIPE, "first"),
    "resample.resampler": Entry(RECIPE, {"use": "soxr_vhq"}),
    "transcribe.backend": Entry(RECIPE, {"use": "fake", "seed": 1}),
    "transcribe.backends": Entry(RECIPE, [{"use": "fake"}, {"use": "fake", "seed": 1}]),
    # These say something only where there are several; `test_agreement.py` has both.
    "transcribe.when": Entry(THRESHOLD),
    "transcribe.also_when": Entry(THRESHOLD),
    "transcribe.asr": Entry(THRESHOLD),
    # These choose between two clips; `test_enhance_runs.py` has both.
    "transcribe.hear": Entry(THRESHOLD),
    "package.audio": Entry(THRESHOLD),
    "transcribe.llm_text": Entry(RECIPE),  # `test_llm_text.py` has a server
    "transcribe.reference_words": Entry(RECIPE, True),
    "transcribe.turns_by": Entry(THRESHOLD, "window"),
    "transcribe.verdicts": Entry(THRESHOLD, [{"use": "empty_text", "min_chars": 2}]),
    "transcribe.language_by": Entry(THRESHOLD, "clip"),
    "transcribe.text": Entry(THRESHOLD, "asr"),
    "transcribe.close_wer": Entry(THRESHOLD, 0.2),
    "package.disjoint": Entry(THRESHOLD, ["speaker"]),
    "package.formats": Entry(THRESHOLD, ["wenet_raw"]),
    "package.publish": Entry(THRESHOLD, ("words",)),
    "package.text_form": Entry(THRESHOLD, "normalised"),
    "package.seed": Entry(THRESHOLD, 1),
    "package.splits": Entry(THRESHOLD, {"dev": 0.3}),
    "package.leaks_by_voice": Entry(THRESHOLD, True),
    "package.resplit": Entry(THRESHOLD, True),
    "package.split_conflicts": Entry(THRESHOLD, "keep_larger"),
    "package.weights": Entry(THRESHOLD, {"c": 0.9999}),
    "package.only": Entry(THRESHOLD, {"dataset": ["c"]}),
    "package.without": Entry(THRESHOLD, {"speaker": ["nobody"]}),
    "package.exclude": Entry(THRESHOLD, [{"kind": "texts", "path": __file__}]),
    "package.text_marks": Entry(THRESHOLD, {"laughter": "[laughs]"}),
    "package.max_hours_per_speaker": Entry(THRESHOLD, 1.0),
    "package.tar_hours": Entry(THRESHOLD, 0.0001),
    "package.readers": Entry(THRESHOLD, 2),
    "package.rebalance": Entry(THRESHOLD, "full"),
    "package.rebalance_above": Entry(THRESHOLD, 0.5),
    "package.keep": Entry(TRANSIENT, 1),
    "package.memory": Entry(TRANSIENT, "2GB"),
    "package.refit": Entry(THRESHOLD, True),
    "package.max_failed_fraction": Entry(TRANSIENT, 0.5),
    "package.max_new_failed_fraction": Entry(TRANSIENT, 0.9),
    "package.max_removed_fraction": Entry(TRANSIENT, 0.5),
    "package.removed_ok": Entry(TRANSIENT, ["c"]),
}
#: Stages that compute something again when a recipe field gets its other value.
COST: dict[str, set[str]] = {
    # The same spans come out of it, and their PCM and texts are known.
    "filter.segmenter": {"filter"},
    "filter.filters": {"filter"},
    "filter.non_finite": set(),  # of integers; `test_damage_runs.py` has floats
    "resample.rate": {"resample", "transcribe"},
    "resample.channels_cancel": {"resample", "transcribe"},
    "resample.mono": {"resample", "transcribe"},
    "resample.resampler": {"resample", "transcribe"},
    "resample.levels": {"resample", "transcribe"},
    "transcribe.backend": {"transcribe"},
    "transcribe.backends": {"transcribe"},
    "transcribe.llm_text": {"transcribe"},
    "transcribe.reference_words": {"transcribe"},
}

_VAD = {
    "min_seconds": Entry(RECIPE, 2.0), "max_seconds": Entry(RECIPE, 20.0),
    "target_seconds": Entry(RECIPE, 8.0),
    "max_gap_seconds": Entry(RECIPE, 1.5), "threshold": Entry(RECIPE, 0.6),
    "neg_threshold": Entry(RECIPE, 0.3), "min_silence_ms": Entry(RECIPE, 200),
    "min_speech_ms": Entry(RECIPE, 300), "speech_pad_ms": Entry(RECIPE, 50),
}  # fmt: skip
_AT_TURNS = {"min_turn_seconds": Entry(THRESHOLD, 1.0), "mixed": Entry(THRESHOLD, True)}
_ENHANCED = {
    "limit_db": Entry(RECIPE, 6.0), "min_ovrl": NUMBER, "keep_if_better": Entry(THRESHOLD, False),
}  # fmt: skip
SHELVES: dict[str, dict[str, Entry]] = {
    "enhance.none": {},
    "enhance.deepfilter": {**_ENHANCED, "path": Entry(TRANSIENT, "/models")},
    "enhance.gtcrn": {**_ENHANCED, "path": Entry(TRANSIENT, "/models")},
    "enhance.separator_onnx": {
        **_ENHANCED, "path": Entry(TRANSIENT, "/models"), "licence": Entry(THRESHOLD, "MIT"),
        "n_fft": Entry(RECIPE, 2048), "hop": Entry(RECIPE, 512), "gives": Entry(RECIPE, "voice"),
        "denoise": Entry(RECIPE, False),
    },
    "diarizers.none": {},
    "diarizers.given": _AT_TURNS,
    "diarizers.channels": _AT_TURNS,
    "diarizers.segments": {
        "edge_seconds": Entry(THRESHOLD, 0.0), "max_second_voice": NUMBER,
        "across_recordings": Entry(THRESHOLD, False), "threshold": Entry(THRESHOLD, 0.6),
        **_AT_TURNS, "cut": Entry(RECIPE, 0.6), "hop_seconds": Entry(RECIPE, 5.0),
        "path": Entry(TRANSIENT, "/models"),
    },
    "filters.overlap": {"min": NUMBER, "max": Entry(THRESHOLD, 0.5)},
    "filters.cross_talk": {"min": NUMBER, "max": Entry(THRESHOLD, 0.3)},
    "filters.second_voice": {"min": NUMBER, "max": Entry(THRESHOLD, 0.5)},
    "filters.speaker_purity": {
        "path": Entry(TRANSIENT, "/models"), "min": Entry(THRESHOLD, 0.1), "max": NUMBER,
    },
    "filters.audio_language": {  # `test_audio_language.py` has a model
        "model": Entry(TRANSIENT), "licence": Entry(TRANSIENT, "MIT"),
        "allowed": Entry(THRESHOLD, ["en"]), "min_probability": NUMBER,
        "max_probability": NUMBER,
    },
    "filters.tracks": {"min": Entry(THRESHOLD, 1.0), "max": Entry(THRESHOLD, 3.0)},
    "formats.duplex": {
        "tracks": Entry(THRESHOLD, "by_turns"),
        "swap": Entry(THRESHOLD, True),
        "audio": Entry(THRESHOLD, "flac"),
    },
    "filters.voice": {
        "like": Entry(TRANSIENT, ["/a.wav"]), "unlike": Entry(TRANSIENT, ["/b.wav"]),
        "path": Entry(TRANSIENT, "/models"), "min_like": Entry(THRESHOLD, 0.4),
        "max_like": Entry(THRESHOLD, 0.9), "min_unlike": NUMBER,
        "max_unlike": Entry(THRESHOLD, 0.4),
    },
    "filters.speakers": {"min": NUMBER, "max": Entry(THRESHOLD, 2.0)},
    "segmenters.whole": {},
    "segmenters.aligned": {
        "engine": Entry(RECIPE, "ctc"), "backend": Entry(RECIPE, {"use": "fake"}),
    },
    "segmenters.given": {
        "target_seconds": Entry(RECIPE, 8.0),
        "max_seconds": Entry(RECIPE, 20.0),
        "caption_shift_ms": Entry(RECIPE, 0),
    },
    "segmenters.vad": {**_VAD, "merge": Entry(RECIPE, "emilia")},
    "segmenters.auto": {**_VAD, "whole_up_to": Entry(RECIPE, 20.0),
                        "whole_without_text_up_to": Entry(RECIPE, 10.0),
                        "caption_shift_ms": Entry(RECIPE, 0)},
    "segmenters.dialogue": {
        "target_seconds": Entry(RECIPE, 50.0), "min_seconds": Entry(RECIPE, 20.0),
        "max_seconds": Entry(RECIPE, 100.0), "max_gap_seconds": Entry(RECIPE, 2.0),
        "min_pause_seconds": Entry(RECIPE, 0.2),
    },
    "segmenters.applio": {
        "mode": Entry(RECIPE, "simple"), "threshold_db": Entry(RECIPE, -40.0),
        "min_length_ms": Entry(RECIPE, 2000), "min_interval_ms": Entry(RECIPE, 300),
        "hop_ms": Entry(RECIPE, 10), "max_sil_kept_ms": Entry(RECIPE, 400),
        "window_seconds": Entry(RECIPE, 4.0), "overlap_seconds": Entry(RECIPE, 0.0),
        "drop_tail": Entry(RECIPE, True), "sample_rate": Entry(RECIPE, 32_000),
        "highpass": Entry(RECIPE, False),
    },
    "filters.channels_identical": {"min": NUMBER, "max": Entry(THRESHOLD, 0.5)},
    "filters.decode_faults": {"min": Entry(THRESHOLD, 0.0), "max": Entry(THRESHOLD, 3.0)},
    "filters.dialogue": {
        "min_turns": Entry(THRESHOLD, 4.0), "max_turns": Entry(THRESHOLD, 9.0),
        "min_speakers": Entry(THRESHOLD, 3.0),
        "max_speakers": Entry(THRESHOLD, 2.0), "max_overlap": Entry(THRESHOLD, 0.1),
        "max_silence": Entry(THRESHOLD, 0.2), "max_main": NUMBER,
        **dict.fromkeys((
            "min_backchannels", "max_backchannels", "min_overlap", "min_silence",
            "min_main", "min_turn_seconds", "max_turn_seconds", "min_offset", "max_offset",
        ), NUMBER),
    },
    "filters.duration": {
        "min": Entry(THRESHOLD, 0.5), "max": Entry(THRESHOLD, 20.0),
        "min_difference": NUMBER, "max_difference": NUMBER,
    },
    "filters.sample_rate": {f"{side}_native": Entry(THRESHOLD, 8000) for side in ("min", "max")},
    "filters.channels": {side: Entry(THRESHOLD, 2) for side in ("min", "max")},
    "filters.speech_ratio": {"threshold": Entry(RECIPE, 0.6), "min": NUMBER, "max": NUMBER},
    **{f"filters.{name}": {"min": NUMBER, "max": NUMBER}
       for name in ("bandwidth", "dc_offset", "dead_channel", "effective_rate", "loudness",
                    "peak", "rms", "speech_rate")},
    "filters.file_size": {"min": Entry(THRESHOLD, 5), "max": Entry(THRESHOLD, 10**6)},
    "filters.silence": {
        "threshold_db": Entry(RECIPE, -50.0), "range_db": Entry(RECIPE, 40.0),
        **{f"{side}_{part}": NUMBER for side in ("min", "max")
           for part in ("fraction", "leading", "trailing", "longest")},
    },
    "filters.clipping": {
        f"{side}_{part}": NUMBER for side in ("min", "max") for part in ("fraction", "longest")
    },
    "filters.nmf_snr": {"min": NUMBER, "max": NUMBER},
    "filters.alignment": {"min": NUMBER, "max": Entry(THRESHOLD, 0.9)},
    "filters.snr": {"min": NUMBER, "max": NUMBER},
    "filters.pitch": {
        "min_median": NUMBER, "max_median": NUMBER, "min_range": NUMBER, "max_range": NUMBER,
        "min_voiced": NUMBER, "max_voiced": NUMBER,
    },
    # Which model it is, its hash says to the recipe; `test_sounds.py` has one.
    "filters.sounds": {
        "model": Entry(TRANSIENT), "licence": Entry(TRANSIENT, "MIT"),
        "threshold": Entry(RECIPE, 0.5),
        **{f"{side}_music_{part}": NUMBER for side in ("min", "max") for part in ("mean", "score")},
        "min_share": Entry(THRESHOLD, {"speech": 0.5}),
        "max_share": Entry(THRESHOLD, {"music": 0.5}),
    },
    # `test_music.py` has one, and `test_audio_language.py` the weights.
    "filters.music": {
        "model": Entry(TRANSIENT), "licence": Entry(TRANSIENT, "MIT"),
        "threshold": Entry(RECIPE, 0.5),
        **{f"{side}_{part}": NUMBER
           for side in ("min", "max") for part in ("share", "evidence", "level")},
    },
    "filters.distillmos": {
        "hop": Entry(RECIPE, 2.0), "compat": Entry(RECIPE, "package"),
        "min": NUMBER, "max": NUMBER,
    },
    "filters.reverberation": {
        f"{side}_{part}": NUMBER for side in ("min", "max") for part in ("c50", "rt60")
    },
    "filters.dnsmos": {
        "device": Entry(TRANSIENT, "cuda"),
        "precision": Entry(RECIPE, "int8"),
        "compat": Entry(RECIPE, "emilia"),
        **{f"{side}_{part}": NUMBER for side in ("min", "max") for part in ("sig", "bak", "ovrl")},
    },
    "filters.duplicate": {
        "seconds": Entry(RECIPE, 60.0), "max_error": Entry(THRESHOLD, 0.1),
        "max_drift": Entry(THRESHOLD, 0.004), "max_padding": Entry(THRESHOLD, 0.1),
        "min_sound": Entry(THRESHOLD, 0.5), "drop": Entry(THRESHOLD, False),
    },
    "resamplers.soxr_hq": {},
    "resamplers.soxr_vhq": {},
    "resamplers.samplerate_sinc_best": {},
    "resamplers.resampy_kaiser_best": {},
    "resamplers.librosa": {"res_type": Entry(RECIPE, "soxr_vhq")},
    "levels.peak": {"target_db": Entry(RECIPE, -3.0)},
    "levels.loudness_lufs": {
        "target_lufs": Entry(RECIPE, -16.0), "ceiling_db": Entry(RECIPE, -2.0),
    },
    "levels.emilia": {},
    "levels.applio": {},
    "levels.highpass": {"cutoff_hz": Entry(RECIPE, 80.0), "order": Entry(RECIPE, 2)},
    "levels.gaussian_noise": {
        "min_snr_db": Entry(RECIPE, 5.0), "max_snr_db": Entry(RECIPE, 40.0),
        "probability": Entry(RECIPE, 0.5), "seed": Entry(RECIPE, 1),
    },
    "levels.ffmpeg": {"graph": Entry(RECIPE, "highpass=f=80")},
    "formats.ctm": {},
    "formats.textgrid": {},
    "asr.fake": {"language": Entry(RECIPE, "es"), "seed": Entry(RECIPE, 1)},
    "asr.none": {},
    "asr.faster_whisper": {
        # Which model it is, `weights` says to the recipe; here is only where it lies.
        "model": Entry(TRANSIENT, "/models/other"), "sha256": Entry(TRANSIENT, "0" * 64),
        "device": Entry(TRANSIENT, "cpu"), "compute_type": Entry(RECIPE, "float32"),
        "beam_size": Entry(RECIPE, 1), "language": Entry(RECIPE, "es"),
        "prompt": Entry(RECIPE, "Hello."), "chinese": Entry(RECIPE, "as_heard"),
        "short_windows": Entry(RECIPE, False), "word_timestamps": Entry(RECIPE, True),
        "share_windows": Entry(RECIPE, False),
        "batch_size": Entry(TRANSIENT, {"default": 2, "zh": 1}), "threads": Entry(TRANSIENT, 2),
    },
    "asr.moonshine": {
        "max_tokens_per_second": Entry(RECIPE, 4.0), "all_cores": Entry(TRANSIENT, True),
    },
    "asr.openai_api": {
        # Which model it is, `weights` says to the recipe; the rest is where and how it is asked.
        "url": Entry(TRANSIENT, "http://other:8000/v1"), "model": Entry(TRANSIENT, "small"),
        "api_key": Entry("secret", "k"), "api_key_env": Entry(TRANSIENT, "KEY"),
        "language": Entry(RECIPE, "es"), "prompt": Entry(RECIPE, "Hello."),
        "temperature": Entry(RECIPE, 0.5), "response_format": Entry(RECIPE, "json"),
        "timeout": Entry(TRANSIENT, 5.0), "retries": Entry(TRANSIENT, 1),
        "backoff": Entry(TRANSIENT, 0.1), "patience": Entry(TRANSIENT, 10.0),
        "word_timestamps": Entry(RECIPE, True), "token_logprobs": Entry(RECIPE, True),
        "parallel": Entry(TRANSIENT, 1), "ca_file": Entry(TRANSIENT, "/ca.pem"),
    },
    "asr.ctc": {
        # Which model it is, `weights` says to the recipe; here is only where it lies.
        "model": Entry(TRANSIENT, "/models/other"), "max_seconds": Entry(RECIPE, 20.0),
        "word_timestamps": Entry(RECIPE, True), "threads": Entry(TRANSIENT, 2),
    },
    "asr.onnx_asr": {
        # Which model it is, `weights` says to the recipe; here is only where it lies.
        "model": Entry(TRANSIENT, "/models/other"), "family": Entry(RECIPE, "whisper"),
        "quantization": Entry(TRANSIENT, "int8"), "language": Entry(RECIPE, "es"),
        "max_seconds": Entry(RECIPE, 20.0), "word_timestamps": Entry(RECIPE, True),
        "device": Entry(TRANSIENT, "cpu"), "batch_size": Entry(TRANSIENT, 2),
        "threads": Entry(TRANSIENT, 2),
    },
    "asr.sherpa_onnx": {
        "model": Entry(TRANSIENT, "/models/other"), "family": Entry(RECIPE, "paraformer"),
        "int8": Entry(TRANSIENT, True), "language": Entry(RECIPE, "zh"),
        "itn": Entry(RECIPE, False), "max_seconds": Entry(RECIPE, 20.0),
        "word_timestamps": Entry(RECIPE, True), "batch_size": Entry(TRANSIENT, 2),
        "threads": Entry(TRANSIENT, 2),
    },
    "text.agreement": {
        "min": Entry(THRESHOLD, 0.5), "by_language": Entry(THRESHOLD, {"zh": 0.5}),
        "max_worst": NUMBER, "min_votes": NUMBER,
    },
    "text.char_duration": {"per": Entry(THRESHOLD, "recording"), "width": Entry(THRESHOLD, 2.0),
                           "min_group": Entry(THRESHOLD, 5)},
    "text.char_rate": {
        "min_alphabetic": NUMBER, "max_alphabetic": NUMBER,
        "min_syllabic": Entry(THRESHOLD, 1.0), "max_syllabic": NUMBER,
        "unless_wer": Entry(THRESHOLD, 0.3),
    },
    "text.completeness": {
        "max_speech_after_text": NUMBER, "max_speech_without_words": NUMBER,
        "min_words_per_speech_second": NUMBER,
        "unless_wer": Entry(THRESHOLD, 0.3),
    },
    "text.compression": {"max": NUMBER, "unless_wer": Entry(THRESHOLD, 0.3)},
    "text.confidence": {"min": Entry(THRESHOLD, -0.5), "unless_wer": Entry(THRESHOLD, 0.3)},
    "text.expected_wer": {
        "max": Entry(THRESHOLD, 0.5), "min_evidence": Entry(THRESHOLD, -3.0),
    },
    "text.edge_errors": {"max_first": NUMBER, "max_last": NUMBER},
    "text.empty_text": {"min_chars": Entry(THRESHOLD, 2)},
    "text.error_rate": {f"max_{part}": NUMBER for part in ("spaced", "unspaced", "wer")},
    "text.hallucination": {
        "max_credits": NUMBER, "max_pace": NUMBER, "unless_logprob": Entry(THRESHOLD, -0.3),
        "unless_wer": Entry(THRESHOLD, 0.3),
    },
    "text.language": {"allowed": Entry(THRESHOLD, ["en"]), "max_contradiction": NUMBER,
                      "min_probability": Entry(THRESHOLD, 0.5), "min_in_source": NUMBER,
                      "unless_logprob": Entry(THRESHOLD, -0.3),
                      "unless_wer": Entry(THRESHOLD, 0.3)},
    "text.language_agrees": {"min": NUMBER, "unless_wer": Entry(THRESHOLD, 0.3)},
    # `test_llm_label.py` has a server.
    "text.llm_label": {
        **dict.fromkeys(ServerSettings.model_fields, Entry(TRANSIENT)),
        **dict.fromkeys(("model", "questions", "prompt", "temperature", "second", "audio",
                         "constrained"), Entry(RECIPE)),
        "allowed": Entry(THRESHOLD), "min_agreement": Entry(THRESHOLD),
    },
    "text.logprob": {"min": Entry(THRESHOLD, -0.5), "unless_wer": Entry(THRESHOLD, 0.3)},
    "text.no_speech": {"max": NUMBER, "unless_logprob": Entry(THRESHOLD, -0.5),
                       "min_recording_speech": NUMBER,
                       "unless_wer": Entry(THRESHOLD, 0.3)},
    # `test_text.py` has their effects.
    "text.phonemes": dict.fromkeys(("voices", "stress", "punctuation", "required"),
                                   Entry(THRESHOLD)),
    "text.pii": {
        "action": Entry(THRESHOLD, "drop"),
        **dict.fromkeys(("kinds", "masks", "mute", "untimed"), Entry(THRESHOLD)),
    },
    "text.reference_confidence": dict.fromkeys(
        ("min", "min_word", "max_doubtful"), Entry(THRESHOLD)
    ),
    "text.reference_suspect": {
        "min_capitals": Entry(THRESHOLD, 0.1), "max_capitals": Entry(THRESHOLD, 0.5),
        "max_repeated": Entry(THRESHOLD, 0.5),
    },
    "text.repeated_text": dict.fromkeys(("max_times", "max_seconds", "near"), Entry(THRESHOLD)),
    "text.repetition": {"max": Entry(THRESHOLD, 0.3), "unless_wer": Entry(THRESHOLD, 0.3)},
    "text.style": dict.fromkeys(
        ("pitch", "rate", "noise", "reverberation", "template", "phrases", "min_group"),
        Entry(THRESHOLD),
    ),
    "formats.chat_jsonl": {
        "audio": Entry(THRESHOLD, "flac"), "profile": Entry(THRESHOLD, "qwen_audio"),
        "tasks": Entry(THRESHOLD), "prompts": Entry(THRESHOLD, {"asr": "Write it down."}),
        "caption": Entry(THRESHOLD, "in {language}"), "turns": Entry(THRESHOLD, 2),
        "max_gap": Entry(THRESHOLD, 1.0),
    },
    "formats.emilia": {"audio": Entry(THRESHOLD, "mp3")},
    # Tokens need a codec; `test_format_features.py` has one.
    "formats.features": {"arrays": Entry(THRESHOLD), "like": Entry(THRESHOLD, "wenet"),
                         "bins": Entry(THRESHOLD, 40), "codec_onnx": Entry(TRANSIENT),
                         "codec_rate": Entry(THRESHOLD, 16_000)},
    "formats.hf_parquet": {"audio": Entry(THRESHOLD, "flac"), "bit_rate": Entry(THRESHOLD),
                           "tracks": Entry(THRESHOLD)},
    "formats.kaldi": {},
    "formats.lance": {"audio": Entry(THRESHOLD, "flac"), "bit_rate": Entry(THRESHOLD)},
    "formats.lhotse_shar": {"audio": Entry(THRESHOLD, "flac"), "bit_rate": Entry(THRESHOLD),
                            "index": Entry(THRESHOLD, True), "tracks": Entry(THRESHOLD)},
    "formats.litdata": {"audio": Entry(THRESHOLD, "flac"), "bit_rate": Entry(THRESHOLD)},
    "formats.mds": {"audio": Entry(THRESHOLD, "flac"), "bit_rate": Entry(THRESHOLD)},
    "formats.metadata_csv": {"audio": Entry(THRESHOLD), "bit_rate": Entry(THRESHOLD),
                             "profile": Entry(THRESHOLD, "f5"), "phonemes": Entry(THRESHOLD)},
    "formats.nemo": {"audio": Entry(THRESHOLD, "flac")},
    "formats.speechbrain": {},
    "formats.webdataset": {"audio": Entry(THRESHOLD, "flac"), "bit_rate": Entry(THRESHOLD),
                           "energon": Entry(THRESHOLD, True), "tracks": Entry(THRESHOLD)},
    "formats.wenet": {"facts": Entry(THRESHOLD, True)},
    "formats.wenet_raw": {},
}  # fmt: skip

#: No rule on one clip: `test_duplicates.py` sees that these thresholds decide.
CORPUS_WIDE = {"filters.duplicate", "text.char_duration"}
IN_REJECT = ("min_in_source",)  # of a rule that has a corpus-wide part too
#: `test_formats.py`, `test_speakers.py` and `test_enhance_runs.py` use those.
NO_RULES = ("formats.", "diarizers.", "enhance.")
#: Settings of a plug-in that have another value to try, by its shelf and name.
PLUGIN_FIELDS = {
    name: other
    for name, fields in SHELVES.items()
    if (other := [field for field, entry in fields.items() if entry.other is not None])
}


def roles(model: type[BaseModel]) -> dict[str, str]:
    return {field: role or RECIPE for field, role in marked(model).items()}


def settings_of(shelf: str, use: str) -> dict[str, str]:
    module = plugins.load(shelf, use)
    return roles(module.Settings) if hasattr(module, "Settings") else {}


def test_every_stage_setting_is_declared() -> None:
    found = {
        f"{stage}.{field}": kind
        for stage, model in corpus.MODELS.items()
        for field, kind in roles(model).items()
    }
    assert found == {name: entry.role for name, entry in STAGES.items()}
    recipes = {name for name, entry in STAGES.items() if entry.role == RECIPE}
    assert recipes == set(COST)


def test_every_plugin_setting_is_declared() -> None:
    found = {
        f"{shelf}.{use}": settings_of(shelf, use)
        for shelf in shelves.SHELVES
        if shelf != "sources"
        for use in shelves.names(shelf)
    }
    assert found == {n: {f: e.role for f, e in fields.items()} for n, fields in SHELVES.items()}


def test_where_the_work_is_done_never_changes_what_comes_out() -> None:
    for model in (ClusterSettings, TlsSettings):
        assert {*roles(model).values()} == {TRANSIENT}


def test_control_a_new_setting_is_noticed() -> None:
    class Grown(ResampleSettings):
        dither: bool = False

    declared = {f.partition(".")[2]: e.role for f, e in STAGES.items() if f[:9] == "resample."}
    assert roles(ResampleSettings) == declared
    assert roles(Grown) != declared


@pytest.mark.parametrize("name", PLUGIN_FIELDS)
def test_recipes_hold_what_they_should(name: str) -> None:
    """The recipe of a plug-in changes with its recipe fields, and with no other."""
    shelf, _, use = name.partition(".")
    if shelf == "text":
        for field in PLUGIN_FIELDS[name]:
            assert SHELVES[name][field].role == THRESHOLD, f"{field}: verdicts measure nothing"
        return
    plain = recipe.of_plugin(shelf, Plugin(use=use))
    for field in PLUGIN_FIELDS[name]:
        entry = SHELVES[name][field]
        changed = Plugin.model_validate({"use": use, field: entry.other})
        assert (recipe.of_plugin(shelf, changed) != plain) == (entry.role == RECIPE), field


@pytest.mark.parametrize(
    "name", [n for n in PLUGIN_FIELDS if n not in CORPUS_WIDE and not n.startswith(NO_RULES)]
)
def test_thresholds_reach_the_rules(name: str) -> None:
    """A limit that no rule takes up would be silently dead."""
    shelf, _, use = name.partition(".")
    module: Any = plugins.load(shelf, use)
    for field in PLUGIN_FIELDS[name]:
        entry = SHELVES[name][field]
        if entry.role == THRESHOLD and field not in IN_REJECT:
            changed = module.Settings.model_validate({field: entry.other})
            assert module.verdict(changed) != module.verdict(module.Settings()), field


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp = tmp_path_factory.mktemp("roles")
    corpus.make(tmp / "in", 4)
    corpus.listed(tmp / "in", 4, tmp / "list.jsonl")
    corpus.run(job(tmp, tmp / "out"))
    return tmp


def job(base: Path, out: Path, source: dict[str, Any] | None = None, **changes: Any) -> Any:
    path = {"kind": "jsonl", "path": str(base / "list.jsonl"), "name": "c", **(source or {})}
    return corpus.job(base, out=out, sources=[path], **changes)


def computed(counts: dict[str, tuple[int, int]]) -> set[str]:
    return {n for n in ("shard", "filter", "resample", "transcribe") if counts[n][0]}


#: Settings of stages with another value to compare with; a sixth of them by day.
COMPARED = [name for name, entry in STAGES.items() if entry.other is not None]


@pytest.mark.full
@pytest.mark.parametrize(
    "name", tiers.few(COMPARED, *COMPARED[::6], "resample.rate", "transcribe.backend")
)
def test_what_a_change_computes(base: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(base / "out", tmp_path / "out", symlinks=True)
    stage, _, field = name.partition(".")
    entry = STAGES[name]
    published, counts = corpus.run(job(base, tmp_path / "out", **{stage: {field: entry.other}}))
    assert computed(counts) == COST.get(name, set())
    assert published.new == (entry.role != TRANSIENT)
    assert all(computed_ in (0, 4) for computed_, _ in counts.values())
    assert computed(corpus.run(job(base, tmp_path / "out"))[1]) == set()  # and back is free


@pytest.mark.parametrize(
    ("change", "cost"),
    [
        ({"licence": "CC0-1.0"}, set()),
        ({"expect_broken": True}, set()),
        ({"language": "es"}, {"transcribe"}),
    ],
)
def test_what_a_change_of_a_source_computes(
    base: Path, tmp_path: Path, change: dict[str, Any], cost: set[str]
) -> None:
    shutil.copytree(base / "out", tmp_path / "out", symlinks=True)
    _, counts = corpus.run(job(base, tmp_path / "out", source=change))
    assert computed(counts) == cost


def test_a_copy_of_settings_forgets_what_was_asked_of_the_first() -> None:
    """pydantic copies what a cached property holds: another limit was silently not applied."""
    one = FilterSettings.model_validate({"filters": [{"use": "duration", "min": 0.7}]})
    assert one.all_filters[0].options == {"min": 0.7}
    other = one.model_copy(update={"filters": (Plugin.model_validate({"use": "peak"}),)})
    assert other.all_filters[0].use == "peak"
    plugin = one.filters[0].model_copy(update={"min": 0.9})
    assert plugin.options == {"min": 0.9}
