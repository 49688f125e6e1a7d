"""Every plug-in as its contract; for mypy alone, made by `python -m tests.pages`."""
# ruff: noqa: E501
# fmt: off

import uttermill.tasks.asr.ctc
import uttermill.tasks.asr.fake
import uttermill.tasks.asr.faster_whisper
import uttermill.tasks.asr.moonshine
import uttermill.tasks.asr.none
import uttermill.tasks.asr.onnx_asr
import uttermill.tasks.asr.openai_api
import uttermill.tasks.asr.sherpa_onnx
import uttermill.tasks.diarizers.channels
import uttermill.tasks.diarizers.given
import uttermill.tasks.diarizers.none
import uttermill.tasks.diarizers.segments
import uttermill.tasks.enhance.deepfilter
import uttermill.tasks.enhance.gtcrn
import uttermill.tasks.enhance.none
import uttermill.tasks.enhance.separator_onnx
import uttermill.tasks.filters.alignment
import uttermill.tasks.filters.bandwidth
import uttermill.tasks.filters.channels
import uttermill.tasks.filters.channels_identical
import uttermill.tasks.filters.clipping
import uttermill.tasks.filters.cross_talk
import uttermill.tasks.filters.dc_offset
import uttermill.tasks.filters.dead_channel
import uttermill.tasks.filters.decode_faults
import uttermill.tasks.filters.dialogue
import uttermill.tasks.filters.distillmos
import uttermill.tasks.filters.dnsmos
import uttermill.tasks.filters.duplicate
import uttermill.tasks.filters.duration
import uttermill.tasks.filters.effective_rate
import uttermill.tasks.filters.file_size
import uttermill.tasks.filters.loudness
import uttermill.tasks.filters.music
import uttermill.tasks.filters.nmf_snr
import uttermill.tasks.filters.overlap
import uttermill.tasks.filters.peak
import uttermill.tasks.filters.pitch
import uttermill.tasks.filters.reverberation
import uttermill.tasks.filters.rms
import uttermill.tasks.filters.sample_rate
import uttermill.tasks.filters.second_voice
import uttermill.tasks.filters.silence
import uttermill.tasks.filters.snr
import uttermill.tasks.filters.sounds
import uttermill.tasks.filters.speaker_purity
import uttermill.tasks.filters.speakers
import uttermill.tasks.filters.speech_rate
import uttermill.tasks.filters.speech_ratio
import uttermill.tasks.formats.chat_jsonl
import uttermill.tasks.formats.ctm
import uttermill.tasks.formats.emilia
import uttermill.tasks.formats.features
import uttermill.tasks.formats.hf_parquet
import uttermill.tasks.formats.kaldi
import uttermill.tasks.formats.lance
import uttermill.tasks.formats.lhotse_shar
import uttermill.tasks.formats.litdata
import uttermill.tasks.formats.mds
import uttermill.tasks.formats.metadata_csv
import uttermill.tasks.formats.nemo
import uttermill.tasks.formats.speechbrain
import uttermill.tasks.formats.textgrid
import uttermill.tasks.formats.webdataset
import uttermill.tasks.formats.wenet
import uttermill.tasks.formats.wenet_raw
import uttermill.tasks.levels.applio
import uttermill.tasks.levels.emilia
import uttermill.tasks.levels.ffmpeg
import uttermill.tasks.levels.gaussian_noise
import uttermill.tasks.levels.highpass
import uttermill.tasks.levels.loudness_lufs
import uttermill.tasks.levels.peak
import uttermill.tasks.resamplers.librosa
import uttermill.tasks.resamplers.resampy_kaiser_best
import uttermill.tasks.resamplers.samplerate_sinc_best
import uttermill.tasks.resamplers.soxr_hq
import uttermill.tasks.resamplers.soxr_vhq
import uttermill.tasks.segmenters.aligned
import uttermill.tasks.segmenters.applio
import uttermill.tasks.segmenters.auto
import uttermill.tasks.segmenters.dialogue
import uttermill.tasks.segmenters.given
import uttermill.tasks.segmenters.vad
import uttermill.tasks.segmenters.whole
import uttermill.tasks.sources.datajuicer
import uttermill.tasks.sources.folder
import uttermill.tasks.sources.hf_parquet
import uttermill.tasks.sources.jsonl
import uttermill.tasks.sources.kaldi
import uttermill.tasks.sources.lhotse
import uttermill.tasks.sources.table
import uttermill.tasks.sources.tar
import uttermill.tasks.text.agreement
import uttermill.tasks.text.char_duration
import uttermill.tasks.text.char_rate
import uttermill.tasks.text.completeness
import uttermill.tasks.text.compression
import uttermill.tasks.text.confidence
import uttermill.tasks.text.edge_errors
import uttermill.tasks.text.empty_text
import uttermill.tasks.text.error_rate
import uttermill.tasks.text.expected_wer
import uttermill.tasks.text.hallucination
import uttermill.tasks.text.language
import uttermill.tasks.text.language_agrees
import uttermill.tasks.text.llm_label
import uttermill.tasks.text.logprob
import uttermill.tasks.text.no_speech
import uttermill.tasks.text.phonemes
import uttermill.tasks.text.pii
import uttermill.tasks.text.reference_confidence
import uttermill.tasks.text.repeated_text
import uttermill.tasks.text.repetition
import uttermill.tasks.text.style
from uttermill.tasks.levels import peak
from uttermill.tasks.plugins import contracts

asr_ctc: contracts.RecogniserModule = uttermill.tasks.asr.ctc
asr_fake: contracts.RecogniserModule = uttermill.tasks.asr.fake
asr_faster_whisper: contracts.RecogniserModule = uttermill.tasks.asr.faster_whisper
asr_moonshine: contracts.RecogniserModule = uttermill.tasks.asr.moonshine
asr_none: contracts.RecogniserModule = uttermill.tasks.asr.none
asr_onnx_asr: contracts.RecogniserModule = uttermill.tasks.asr.onnx_asr
asr_openai_api: contracts.RecogniserModule = uttermill.tasks.asr.openai_api
asr_sherpa_onnx: contracts.RecogniserModule = uttermill.tasks.asr.sherpa_onnx
diarizers_channels: contracts.DiarizerModule = uttermill.tasks.diarizers.channels
diarizers_given: contracts.DiarizerModule = uttermill.tasks.diarizers.given
diarizers_none: contracts.DiarizerModule = uttermill.tasks.diarizers.none
diarizers_segments: contracts.DiarizerModule = uttermill.tasks.diarizers.segments
enhance_deepfilter: contracts.EnhancerModule = uttermill.tasks.enhance.deepfilter
enhance_gtcrn: contracts.EnhancerModule = uttermill.tasks.enhance.gtcrn
enhance_none: contracts.EnhancerModule = uttermill.tasks.enhance.none
enhance_separator_onnx: contracts.EnhancerModule = uttermill.tasks.enhance.separator_onnx
filters_alignment: contracts.FilterModule = uttermill.tasks.filters.alignment
filters_bandwidth: contracts.FilterModule = uttermill.tasks.filters.bandwidth
filters_channels: contracts.FilterModule = uttermill.tasks.filters.channels
filters_channels_identical: contracts.FilterModule = uttermill.tasks.filters.channels_identical
filters_clipping: contracts.FilterModule = uttermill.tasks.filters.clipping
filters_cross_talk: contracts.FilterModule = uttermill.tasks.filters.cross_talk
filters_dc_offset: contracts.FilterModule = uttermill.tasks.filters.dc_offset
filters_dead_channel: contracts.FilterModule = uttermill.tasks.filters.dead_channel
filters_decode_faults: contracts.FilterModule = uttermill.tasks.filters.decode_faults
filters_dialogue: contracts.FilterModule = uttermill.tasks.filters.dialogue
filters_distillmos: contracts.FilterModule = uttermill.tasks.filters.distillmos
filters_dnsmos: contracts.FilterModule = uttermill.tasks.filters.dnsmos
filters_duplicate: contracts.FilterModule = uttermill.tasks.filters.duplicate
filters_duration: contracts.FilterModule = uttermill.tasks.filters.duration
filters_effective_rate: contracts.FilterModule = uttermill.tasks.filters.effective_rate
filters_file_size: contracts.FilterModule = uttermill.tasks.filters.file_size
filters_loudness: contracts.FilterModule = uttermill.tasks.filters.loudness
filters_music: contracts.FilterModule = uttermill.tasks.filters.music
filters_nmf_snr: contracts.FilterModule = uttermill.tasks.filters.nmf_snr
filters_overlap: contracts.FilterModule = uttermill.tasks.filters.overlap
filters_peak: contracts.FilterModule = uttermill.tasks.filters.peak
filters_pitch: contracts.FilterModule = uttermill.tasks.filters.pitch
filters_reverberation: contracts.FilterModule = uttermill.tasks.filters.reverberation
filters_rms: contracts.FilterModule = uttermill.tasks.filters.rms
filters_sample_rate: contracts.FilterModule = uttermill.tasks.filters.sample_rate
filters_second_voice: contracts.FilterModule = uttermill.tasks.filters.second_voice
filters_silence: contracts.FilterModule = uttermill.tasks.filters.silence
filters_snr: contracts.FilterModule = uttermill.tasks.filters.snr
filters_sounds: contracts.FilterModule = uttermill.tasks.filters.sounds
filters_speaker_purity: contracts.FilterModule = uttermill.tasks.filters.speaker_purity
filters_speakers: contracts.FilterModule = uttermill.tasks.filters.speakers
filters_speech_rate: contracts.FilterModule = uttermill.tasks.filters.speech_rate
filters_speech_ratio: contracts.FilterModule = uttermill.tasks.filters.speech_ratio
formats_chat_jsonl: contracts.FormatModule = uttermill.tasks.formats.chat_jsonl
formats_ctm: contracts.FormatModule = uttermill.tasks.formats.ctm
formats_emilia: contracts.FormatModule = uttermill.tasks.formats.emilia
formats_features: contracts.FormatModule = uttermill.tasks.formats.features
formats_hf_parquet: contracts.FormatModule = uttermill.tasks.formats.hf_parquet
formats_kaldi: contracts.FormatModule = uttermill.tasks.formats.kaldi
formats_lance: contracts.FormatModule = uttermill.tasks.formats.lance
formats_lhotse_shar: contracts.FormatModule = uttermill.tasks.formats.lhotse_shar
formats_litdata: contracts.FormatModule = uttermill.tasks.formats.litdata
formats_mds: contracts.FormatModule = uttermill.tasks.formats.mds
formats_metadata_csv: contracts.FormatModule = uttermill.tasks.formats.metadata_csv
formats_nemo: contracts.FormatModule = uttermill.tasks.formats.nemo
formats_speechbrain: contracts.FormatModule = uttermill.tasks.formats.speechbrain
formats_textgrid: contracts.FormatModule = uttermill.tasks.formats.textgrid
formats_webdataset: contracts.FormatModule = uttermill.tasks.formats.webdataset
formats_wenet: contracts.FormatModule = uttermill.tasks.formats.wenet
formats_wenet_raw: contracts.FormatModule = uttermill.tasks.formats.wenet_raw
levels_applio: contracts.LevelModule = uttermill.tasks.levels.applio
levels_emilia: contracts.LevelModule = uttermill.tasks.levels.emilia
levels_ffmpeg: contracts.LevelModule = uttermill.tasks.levels.ffmpeg
levels_gaussian_noise: contracts.LevelModule = uttermill.tasks.levels.gaussian_noise
levels_highpass: contracts.LevelModule = uttermill.tasks.levels.highpass
levels_loudness_lufs: contracts.LevelModule = uttermill.tasks.levels.loudness_lufs
levels_peak: contracts.LevelModule = uttermill.tasks.levels.peak
resamplers_librosa: contracts.ResamplerModule = uttermill.tasks.resamplers.librosa
resamplers_resampy_kaiser_best: contracts.ResamplerModule = uttermill.tasks.resamplers.resampy_kaiser_best
resamplers_samplerate_sinc_best: contracts.ResamplerModule = uttermill.tasks.resamplers.samplerate_sinc_best
resamplers_soxr_hq: contracts.ResamplerModule = uttermill.tasks.resamplers.soxr_hq
resamplers_soxr_vhq: contracts.ResamplerModule = uttermill.tasks.resamplers.soxr_vhq
segmenters_aligned: contracts.SegmenterModule = uttermill.tasks.segmenters.aligned
segmenters_applio: contracts.SegmenterModule = uttermill.tasks.segmenters.applio
segmenters_auto: contracts.SegmenterModule = uttermill.tasks.segmenters.auto
segmenters_dialogue: contracts.SegmenterModule = uttermill.tasks.segmenters.dialogue
segmenters_given: contracts.SegmenterModule = uttermill.tasks.segmenters.given
segmenters_vad: contracts.SegmenterModule = uttermill.tasks.segmenters.vad
segmenters_whole: contracts.SegmenterModule = uttermill.tasks.segmenters.whole
sources_datajuicer: contracts.SourceModule = uttermill.tasks.sources.datajuicer
sources_folder: contracts.SourceModule = uttermill.tasks.sources.folder
sources_hf_parquet: contracts.SourceModule = uttermill.tasks.sources.hf_parquet
sources_jsonl: contracts.SourceModule = uttermill.tasks.sources.jsonl
sources_kaldi: contracts.SourceModule = uttermill.tasks.sources.kaldi
sources_lhotse: contracts.SourceModule = uttermill.tasks.sources.lhotse
sources_table: contracts.SourceModule = uttermill.tasks.sources.table
sources_tar: contracts.SourceModule = uttermill.tasks.sources.tar
text_agreement: contracts.TextVerdictModule = uttermill.tasks.text.agreement
text_char_duration: contracts.TextVerdictModule = uttermill.tasks.text.char_duration
text_char_rate: contracts.TextVerdictModule = uttermill.tasks.text.char_rate
text_completeness: contracts.TextVerdictModule = uttermill.tasks.text.completeness
text_compression: contracts.TextVerdictModule = uttermill.tasks.text.compression
text_confidence: contracts.TextVerdictModule = uttermill.tasks.text.confidence
text_edge_errors: contracts.TextVerdictModule = uttermill.tasks.text.edge_errors
text_empty_text: contracts.TextVerdictModule = uttermill.tasks.text.empty_text
text_error_rate: contracts.TextVerdictModule = uttermill.tasks.text.error_rate
text_expected_wer: contracts.TextVerdictModule = uttermill.tasks.text.expected_wer
text_hallucination: contracts.TextVerdictModule = uttermill.tasks.text.hallucination
text_language: contracts.TextVerdictModule = uttermill.tasks.text.language
text_language_agrees: contracts.TextVerdictModule = uttermill.tasks.text.language_agrees
text_llm_label: contracts.TextVerdictModule = uttermill.tasks.text.llm_label
text_logprob: contracts.TextVerdictModule = uttermill.tasks.text.logprob
text_no_speech: contracts.TextVerdictModule = uttermill.tasks.text.no_speech
text_phonemes: contracts.TextVerdictModule = uttermill.tasks.text.phonemes
text_pii: contracts.TextVerdictModule = uttermill.tasks.text.pii
text_reference_confidence: contracts.TextVerdictModule = uttermill.tasks.text.reference_confidence
text_repeated_text: contracts.TextVerdictModule = uttermill.tasks.text.repeated_text
text_repetition: contracts.TextVerdictModule = uttermill.tasks.text.repetition
text_style: contracts.TextVerdictModule = uttermill.tasks.text.style
other_kind: contracts.ResamplerModule = peak  # type: ignore[assignment]
