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
    "filter.non_finite": set(),  # of integers; `test_lost_files.py` has floats
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


def recipes(*names: str, **others: Any) -> dict[str, Entry]:
    """Settings of that role: `names`, and those that have another value to try."""
    return {name: Entry(RECIPE, others.get(name)) for name in (*names, *others)}


def thresholds(*names: str, **others: Any) -> dict[str, Entry]:
    return {name: Entry(THRESHOLD, others.get(name)) for name in (*names, *others)}


def transients(*names: str, **others: Any) -> dict[str, Entry]:
    return {name: Entry(TRANSIENT, others.get(name)) for name in (*names, *others)}


def limits(*names: str) -> dict[str, Entry]:
    return dict.fromkeys(names, Entry(THRESHOLD, 0.001))


SHELVES: dict[str, dict[str, Entry]] = {
    "enhance.none": {},
    "enhance.deepfilter": transients(path="/models") | recipes(limit_db=6.0) |
        thresholds(keep_if_better=False) | limits("min_ovrl"),
    "enhance.gtcrn": transients(path="/models") | recipes(limit_db=6.0) |
        thresholds(keep_if_better=False) | limits("min_ovrl"),
    "enhance.separator_onnx": transients(path="/models") | recipes(limit_db=6.0, n_fft=2048,
        hop=512, gives="voice", denoise=False) | thresholds(keep_if_better=False, licence="MIT") |
        limits("min_ovrl"),
    "diarizers.none": {},
    "diarizers.given": thresholds(min_turn_seconds=1.0, mixed=True),
    "diarizers.channels": thresholds(min_turn_seconds=1.0, mixed=True),
    "diarizers.segments": transients(path="/models") | recipes(cut=0.6, hop_seconds=5.0) |
        thresholds(edge_seconds=0.0, across_recordings=False, threshold=0.6, min_turn_seconds=1.0,
        mixed=True) | limits("max_second_voice"),
    "filters.overlap": thresholds(max=0.5) | limits("min"),
    "filters.cross_talk": thresholds(max=0.3) | limits("min"),
    "filters.second_voice": thresholds(max=0.5) | limits("min"),
    "filters.speaker_purity": transients(path="/models") | thresholds(min=0.1) | limits("max"),
    # `test_audio_language.py` has a model
    "filters.audio_language": transients("model", licence="MIT") | thresholds(allowed=["en"]) |
        limits("min_probability", "max_probability"),
    "filters.tracks": thresholds(min=1.0, max=3.0),
    "formats.duplex": thresholds(tracks="by_turns", swap=True, audio="flac"),
    "filters.voice": transients(like=["/a.wav"], unlike=["/b.wav"], path="/models") |
        thresholds(min_like=0.4, max_like=0.9, max_unlike=0.4) | limits("min_unlike"),
    "filters.speakers": thresholds(max=2.0) | limits("min"),
    "segmenters.whole": {},
    "segmenters.aligned": recipes(engine="ctc", backend={"use": "fake"}),
    "segmenters.given": recipes(target_seconds=8.0, max_seconds=20.0, caption_shift_ms=0),
    "segmenters.vad": recipes(min_seconds=2.0, max_seconds=20.0, target_seconds=8.0,
        max_gap_seconds=1.5, threshold=0.6, neg_threshold=0.3, min_silence_ms=200,
        min_speech_ms=300, speech_pad_ms=50, merge="emilia"),
    "segmenters.auto": recipes(min_seconds=2.0, max_seconds=20.0, target_seconds=8.0,
        max_gap_seconds=1.5, threshold=0.6, neg_threshold=0.3, min_silence_ms=200,
        min_speech_ms=300, speech_pad_ms=50, whole_up_to=20.0, whole_without_text_up_to=10.0,
        caption_shift_ms=0),
    "segmenters.dialogue": recipes(target_seconds=50.0, min_seconds=20.0, max_seconds=100.0,
        max_gap_seconds=2.0, min_pause_seconds=0.2),
    "segmenters.applio": recipes(mode="simple", threshold_db=-40.0, min_length_ms=2000,
        min_interval_ms=300, hop_ms=10, max_sil_kept_ms=400, window_seconds=4.0,
        overlap_seconds=0.0, drop_tail=True, sample_rate=32000, highpass=False),
    "filters.channels_identical": thresholds(max=0.5) | limits("min"),
    "filters.decode_faults": thresholds(min=0.0, max=3.0),
    "filters.dialogue": thresholds(min_turns=4.0, max_turns=9.0, min_speakers=3.0,
        max_speakers=2.0, max_overlap=0.1, max_silence=0.2) | limits("max_main",
        "min_backchannels", "max_backchannels", "min_overlap", "min_silence", "min_main",
        "min_turn_seconds", "max_turn_seconds", "min_offset", "max_offset"),
    "filters.duration": thresholds(min=0.5, max=20.0) | limits("min_difference", "max_difference"),
    "filters.sample_rate": thresholds(min_native=8000, max_native=8000),
    "filters.channels": thresholds(min=2, max=2),
    "filters.speech_ratio": recipes(threshold=0.6) | limits("min", "max"),
    **{f"filters.{name}": limits("min", "max")
       for name in ("bandwidth", "dc_offset", "dead_channel", "effective_rate", "loudness",
                    "nmf_snr", "peak", "rms", "snr", "speech_rate")},
    "filters.file_size": thresholds(min=5, max=1000000),
    "filters.silence": recipes(threshold_db=-50.0, range_db=40.0) | limits("min_fraction",
        "min_leading", "min_trailing", "min_longest", "max_fraction", "max_leading",
        "max_trailing", "max_longest"),
    "filters.clipping": limits("min_fraction", "min_longest", "max_fraction", "max_longest"),
    "filters.alignment": thresholds(max=0.9) | limits("min"),
    "filters.pitch": limits("min_median", "max_median", "min_range", "max_range", "min_voiced",
        "max_voiced"),
    # Which model it is, its hash says to the recipe; `test_sounds.py` has one.
    "filters.sounds": transients("model", licence="MIT") | recipes(threshold=0.5) |
        thresholds(min_share={"speech": 0.5}, max_share={"music": 0.5}) | limits("min_music_mean",
        "min_music_score", "max_music_mean", "max_music_score"),
    # `test_music.py` has one, and `test_audio_language.py` the weights.
    "filters.music": transients("model", licence="MIT") | recipes(threshold=0.5) |
        limits("min_share", "min_evidence", "min_level", "max_share", "max_evidence", "max_level"),
    "filters.distillmos": recipes(hop=2.0, compat="package") | limits("min", "max"),
    "filters.reverberation": limits("min_c50", "min_rt60", "max_c50", "max_rt60"),
    "filters.dnsmos": transients(device="cuda") | recipes(precision="int8", compat="emilia") |
        limits("min_sig", "min_bak", "min_ovrl", "max_sig", "max_bak", "max_ovrl"),
    "filters.duplicate": recipes(seconds=60.0) | thresholds(max_error=0.1, max_drift=0.004,
        max_padding=0.1, min_sound=0.5, drop=False),
    "resamplers.soxr_hq": {},
    "resamplers.soxr_vhq": {},
    "resamplers.samplerate_sinc_best": {},
    "resamplers.resampy_kaiser_best": {},
    "resamplers.librosa": recipes(res_type="soxr_vhq"),
    "levels.peak": recipes(target_db=-3.0),
    "levels.loudness_lufs": recipes(target_lufs=-16.0, ceiling_db=-2.0),
    "levels.emilia": {},
    "levels.applio": {},
    "levels.highpass": recipes(cutoff_hz=80.0, order=2),
    "levels.gaussian_noise": recipes(min_snr_db=5.0, max_snr_db=40.0, probability=0.5, seed=1),
    "levels.ffmpeg": recipes(graph="highpass=f=80"),
    "formats.ctm": {},
    "formats.textgrid": {},
    "asr.fake": recipes(language="es", seed=1),
    "asr.none": {},
    # Which model it is, `weights` says to the recipe; here is only where it lies.
    "asr.faster_whisper": transients(model="/models/other", sha256="0" * 64, device="cpu",
        batch_size={"default": 2, "zh": 1}, threads=2) | recipes(compute_type="float32",
        beam_size=1, language="es", prompt="Hello.", chinese="as_heard", short_windows=False,
        word_timestamps=True, share_windows=False),
    "asr.moonshine": transients(all_cores=True) | recipes(max_tokens_per_second=4.0),
    # Which model it is, `weights` says to the recipe; the rest is where and how it is asked.
    "asr.openai_api": transients(url="http://other:8000/v1", model="small", api_key_env="KEY",
        timeout=5.0, retries=1, backoff=0.1, patience=10.0, parallel=1, ca_file="/ca.pem") |
        {"api_key": Entry("secret", "k")} | recipes(language="es", prompt="Hello.", temperature=0.5,
        response_format="json", word_timestamps=True, token_logprobs=True),
    # Which model it is, `weights` says to the recipe; here is only where it lies.
    "asr.ctc": transients(model="/models/other", threads=2) | recipes(max_seconds=20.0,
        word_timestamps=True),
    # Which model it is, `weights` says to the recipe; here is only where it lies.
    "asr.onnx_asr": transients(model="/models/other", quantization="int8", device="cpu",
        batch_size=2, threads=2) | recipes(family="whisper", language="es", max_seconds=20.0,
        word_timestamps=True),
    "asr.sherpa_onnx": transients(model="/models/other", int8=True, batch_size=2, threads=2) |
        recipes(family="paraformer", language="zh", itn=False, max_seconds=20.0,
        word_timestamps=True),
    "text.agreement": thresholds(min=0.5, by_language={"zh": 0.5}) | limits("max_worst",
        "min_votes"),
    "text.char_duration": thresholds(per="recording", width=2.0, min_group=5),
    "text.char_rate": thresholds(min_syllabic=1.0, unless_wer=0.3) | limits("min_alphabetic",
        "max_alphabetic", "max_syllabic"),
    "text.completeness": thresholds(unless_wer=0.3) | limits("max_speech_after_text",
        "max_speech_without_words", "min_words_per_speech_second"),
    "text.compression": thresholds(unless_wer=0.3) | limits("max"),
    "text.confidence": thresholds(min=-0.5, unless_wer=0.3),
    "text.expected_wer": thresholds(max=0.5, min_evidence=-3.0),
    "text.edge_errors": limits("max_first", "max_last"),
    "text.empty_text": thresholds(min_chars=2),
    "text.error_rate": limits("max_spaced", "max_unspaced", "max_wer"),
    "text.hallucination": thresholds(unless_logprob=-0.3, unless_wer=0.3) | limits("max_credits",
        "max_pace"),
    "text.language": thresholds(allowed=["en"], min_probability=0.5, unless_logprob=-0.3,
        unless_wer=0.3) | limits("max_contradiction", "min_in_source"),
    "text.language_agrees": thresholds(unless_wer=0.3) | limits("min"),
    # `test_llm_label.py` has a server.
    "text.llm_label": transients(*ServerSettings.model_fields) |
        recipes("model", "questions", "prompt", "temperature", "second", "audio",
        "constrained") | thresholds("allowed", "min_agreement"),
    "text.logprob": thresholds(min=-0.5, unless_wer=0.3),
    "text.no_speech": thresholds(unless_logprob=-0.5, unless_wer=0.3) | limits("max",
        "min_recording_speech"),
    # `test_text.py` has their effects.
    "text.phonemes": thresholds("voices", "stress", "punctuation", "required"),
    "text.pii": thresholds("kinds", "masks", "mute", "untimed", action="drop"),
    "text.reference_confidence": thresholds("min", "min_word", "max_doubtful"),
    "text.reference_suspect": thresholds(min_capitals=0.1, max_capitals=0.5, max_repeated=0.5),
    "text.repeated_text": thresholds("max_times", "max_seconds", "near"),
    "text.repetition": thresholds(max=0.3, unless_wer=0.3),
    "text.style": thresholds("pitch", "rate", "noise", "reverberation", "template", "phrases",
        "min_group"),
    "formats.chat_jsonl": thresholds("tasks", audio="flac", profile="qwen_audio",
        prompts={"asr": "Write it down."}, caption="in {language}", turns=2, max_gap=1.0),
    "formats.emilia": thresholds(audio="mp3"),
    # Tokens need a codec; `test_format_features.py` has one.
    "formats.features": transients("codec_onnx") | thresholds("arrays", like="wenet", bins=40,
        codec_rate=16000),
    "formats.hf_parquet": thresholds("bit_rate", "tracks", audio="flac"),
    "formats.kaldi": {},
    "formats.lance": thresholds("bit_rate", audio="flac"),
    "formats.lhotse_shar": thresholds("bit_rate", "tracks", audio="flac", index=True),
    "formats.litdata": thresholds("bit_rate", audio="flac"),
    "formats.mds": thresholds("bit_rate", audio="flac"),
    "formats.metadata_csv": thresholds("audio", "bit_rate", "phonemes", profile="f5"),
    "formats.nemo": thresholds(audio="flac"),
    "formats.speechbrain": {},
    "formats.webdataset": thresholds("bit_rate", "tracks", audio="flac", energon=True),
    "formats.wenet": thresholds(facts=True),
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
