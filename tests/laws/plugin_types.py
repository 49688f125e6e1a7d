"""Every plug-in as its contract; for mypy alone, made by `python -m tests.pages`."""

import tasks.asr.ctc
import tasks.asr.fake
import tasks.asr.faster_whisper
import tasks.asr.moonshine
import tasks.asr.none
import tasks.asr.onnx_asr
import tasks.asr.openai_api
import tasks.asr.sherpa_onnx
import tasks.diarizers.channels
import tasks.diarizers.given
import tasks.diarizers.none
import tasks.diarizers.segments
import tasks.enhance.deepfilter
import tasks.enhance.gtcrn
import tasks.enhance.none
import tasks.enhance.separator_onnx
import tasks.filters.alignment
import tasks.filters.bandwidth
import tasks.filters.channels
import tasks.filters.channels_identical
import tasks.filters.clipping
import tasks.filters.cross_talk
import tasks.filters.dc_offset
import tasks.filters.dead_channel
import tasks.filters.decode_faults
import tasks.filters.dialogue
import tasks.filters.distillmos
import tasks.filters.dnsmos
import tasks.filters.duplicate
import tasks.filters.duration
import tasks.filters.effective_rate
import tasks.filters.file_size
import tasks.filters.loudness
import tasks.filters.music
import tasks.filters.nmf_snr
import tasks.filters.overlap
import tasks.filters.peak
import tasks.filters.pitch
import tasks.filters.reverberation
import tasks.filters.rms
import tasks.filters.sample_rate
import tasks.filters.second_voice
import tasks.filters.silence
import tasks.filters.snr
import tasks.filters.sounds
import tasks.filters.speaker_purity
import tasks.filters.speakers
import tasks.filters.speech_rate
import tasks.filters.speech_ratio
import tasks.formats.chat_jsonl
import tasks.formats.ctm
import tasks.formats.emilia
import tasks.formats.features
import tasks.formats.hf_parquet
import tasks.formats.kaldi
import tasks.formats.lance
import tasks.formats.lhotse_shar
import tasks.formats.litdata
import tasks.formats.mds
import tasks.formats.metadata_csv
import tasks.formats.nemo
import tasks.formats.speechbrain
import tasks.formats.textgrid
import tasks.formats.webdataset
import tasks.formats.wenet
import tasks.formats.wenet_raw
import tasks.levels.applio
import tasks.levels.emilia
import tasks.levels.ffmpeg
import tasks.levels.gaussian_noise
import tasks.levels.highpass
import tasks.levels.loudness_lufs
import tasks.levels.peak
import tasks.resamplers.librosa
import tasks.resamplers.resampy_kaiser_best
import tasks.resamplers.samplerate_sinc_best
import tasks.resamplers.soxr_hq
import tasks.resamplers.soxr_vhq
import tasks.segmenters.aligned
import tasks.segmenters.applio
import tasks.segmenters.auto
import tasks.segmenters.dialogue
import tasks.segmenters.given
import tasks.segmenters.vad
import tasks.segmenters.whole
import tasks.sources.datajuicer
import tasks.sources.folder
import tasks.sources.hf_parquet
import tasks.sources.jsonl
import tasks.sources.kaldi
import tasks.sources.lhotse
import tasks.sources.table
import tasks.sources.tar
import tasks.text.agreement
import tasks.text.char_duration
import tasks.text.char_rate
import tasks.text.completeness
import tasks.text.compression
import tasks.text.confidence
import tasks.text.edge_errors
import tasks.text.empty_text
import tasks.text.error_rate
import tasks.text.hallucination
import tasks.text.language
import tasks.text.language_agrees
import tasks.text.llm_label
import tasks.text.logprob
import tasks.text.no_speech
import tasks.text.pii
import tasks.text.reference_confidence
import tasks.text.repeated_text
import tasks.text.repetition
import tasks.text.style
from tasks.plugins import contracts

asr_ctc: contracts.RecogniserModule = tasks.asr.ctc
asr_fake: contracts.RecogniserModule = tasks.asr.fake
asr_faster_whisper: contracts.RecogniserModule = tasks.asr.faster_whisper
asr_moonshine: contracts.RecogniserModule = tasks.asr.moonshine
asr_none: contracts.RecogniserModule = tasks.asr.none
asr_onnx_asr: contracts.RecogniserModule = tasks.asr.onnx_asr
asr_openai_api: contracts.RecogniserModule = tasks.asr.openai_api
asr_sherpa_onnx: contracts.RecogniserModule = tasks.asr.sherpa_onnx
diarizers_channels: contracts.DiarizerModule = tasks.diarizers.channels
diarizers_given: contracts.DiarizerModule = tasks.diarizers.given
diarizers_none: contracts.DiarizerModule = tasks.diarizers.none
diarizers_segments: contracts.DiarizerModule = tasks.diarizers.segments
enhance_deepfilter: contracts.EnhancerModule = tasks.enhance.deepfilter
enhance_gtcrn: contracts.EnhancerModule = tasks.enhance.gtcrn
enhance_none: contracts.EnhancerModule = tasks.enhance.none
enhance_separator_onnx: contracts.EnhancerModule = tasks.enhance.separator_onnx
filters_alignment: contracts.FilterModule = tasks.filters.alignment
filters_bandwidth: contracts.FilterModule = tasks.filters.bandwidth
filters_channels: contracts.FilterModule = tasks.filters.channels
filters_channels_identical: contracts.FilterModule = tasks.filters.channels_identical
filters_clipping: contracts.FilterModule = tasks.filters.clipping
filters_cross_talk: contracts.FilterModule = tasks.filters.cross_talk
filters_dc_offset: contracts.FilterModule = tasks.filters.dc_offset
filters_dead_channel: contracts.FilterModule = tasks.filters.dead_channel
filters_decode_faults: contracts.FilterModule = tasks.filters.decode_faults
filters_dialogue: contracts.FilterModule = tasks.filters.dialogue
filters_distillmos: contracts.FilterModule = tasks.filters.distillmos
filters_dnsmos: contracts.FilterModule = tasks.filters.dnsmos
filters_duplicate: contracts.FilterModule = tasks.filters.duplicate
filters_duration: contracts.FilterModule = tasks.filters.duration
filters_effective_rate: contracts.FilterModule = tasks.filters.effective_rate
filters_file_size: contracts.FilterModule = tasks.filters.file_size
filters_loudness: contracts.FilterModule = tasks.filters.loudness
filters_music: contracts.FilterModule = tasks.filters.music
filters_nmf_snr: contracts.FilterModule = tasks.filters.nmf_snr
filters_overlap: contracts.FilterModule = tasks.filters.overlap
filters_peak: contracts.FilterModule = tasks.filters.peak
filters_pitch: contracts.FilterModule = tasks.filters.pitch
filters_reverberation: contracts.FilterModule = tasks.filters.reverberation
filters_rms: contracts.FilterModule = tasks.filters.rms
filters_sample_rate: contracts.FilterModule = tasks.filters.sample_rate
filters_second_voice: contracts.FilterModule = tasks.filters.second_voice
filters_silence: contracts.FilterModule = tasks.filters.silence
filters_snr: contracts.FilterModule = tasks.filters.snr
filters_sounds: contracts.FilterModule = tasks.filters.sounds
filters_speaker_purity: contracts.FilterModule = tasks.filters.speaker_purity
filters_speakers: contracts.FilterModule = tasks.filters.speakers
filters_speech_rate: contracts.FilterModule = tasks.filters.speech_rate
filters_speech_ratio: contracts.FilterModule = tasks.filters.speech_ratio
formats_chat_jsonl: contracts.FormatModule = tasks.formats.chat_jsonl
formats_ctm: contracts.FormatModule = tasks.formats.ctm
formats_emilia: contracts.FormatModule = tasks.formats.emilia
formats_features: contracts.FormatModule = tasks.formats.features
formats_hf_parquet: contracts.FormatModule = tasks.formats.hf_parquet
formats_kaldi: contracts.FormatModule = tasks.formats.kaldi
formats_lance: contracts.FormatModule = tasks.formats.lance
formats_lhotse_shar: contracts.FormatModule = tasks.formats.lhotse_shar
formats_litdata: contracts.FormatModule = tasks.formats.litdata
formats_mds: contracts.FormatModule = tasks.formats.mds
formats_metadata_csv: contracts.FormatModule = tasks.formats.metadata_csv
formats_nemo: contracts.FormatModule = tasks.formats.nemo
formats_speechbrain: contracts.FormatModule = tasks.formats.speechbrain
formats_textgrid: contracts.FormatModule = tasks.formats.textgrid
formats_webdataset: contracts.FormatModule = tasks.formats.webdataset
formats_wenet: contracts.FormatModule = tasks.formats.wenet
formats_wenet_raw: contracts.FormatModule = tasks.formats.wenet_raw
levels_applio: contracts.LevelModule = tasks.levels.applio
levels_emilia: contracts.LevelModule = tasks.levels.emilia
levels_ffmpeg: contracts.LevelModule = tasks.levels.ffmpeg
levels_gaussian_noise: contracts.LevelModule = tasks.levels.gaussian_noise
levels_highpass: contracts.LevelModule = tasks.levels.highpass
levels_loudness_lufs: contracts.LevelModule = tasks.levels.loudness_lufs
levels_peak: contracts.LevelModule = tasks.levels.peak
resamplers_librosa: contracts.ResamplerModule = tasks.resamplers.librosa
resamplers_resampy_kaiser_best: contracts.ResamplerModule = tasks.resamplers.resampy_kaiser_best
resamplers_samplerate_sinc_best: contracts.ResamplerModule = tasks.resamplers.samplerate_sinc_best
resamplers_soxr_hq: contracts.ResamplerModule = tasks.resamplers.soxr_hq
resamplers_soxr_vhq: contracts.ResamplerModule = tasks.resamplers.soxr_vhq
segmenters_aligned: contracts.SegmenterModule = tasks.segmenters.aligned
segmenters_applio: contracts.SegmenterModule = tasks.segmenters.applio
segmenters_auto: contracts.SegmenterModule = tasks.segmenters.auto
segmenters_dialogue: contracts.SegmenterModule = tasks.segmenters.dialogue
segmenters_given: contracts.SegmenterModule = tasks.segmenters.given
segmenters_vad: contracts.SegmenterModule = tasks.segmenters.vad
segmenters_whole: contracts.SegmenterModule = tasks.segmenters.whole
sources_datajuicer: contracts.SourceModule = tasks.sources.datajuicer
sources_folder: contracts.SourceModule = tasks.sources.folder
sources_hf_parquet: contracts.SourceModule = tasks.sources.hf_parquet
sources_jsonl: contracts.SourceModule = tasks.sources.jsonl
sources_kaldi: contracts.SourceModule = tasks.sources.kaldi
sources_lhotse: contracts.SourceModule = tasks.sources.lhotse
sources_table: contracts.SourceModule = tasks.sources.table
sources_tar: contracts.SourceModule = tasks.sources.tar
text_agreement: contracts.TextVerdictModule = tasks.text.agreement
text_char_duration: contracts.TextVerdictModule = tasks.text.char_duration
text_char_rate: contracts.TextVerdictModule = tasks.text.char_rate
text_completeness: contracts.TextVerdictModule = tasks.text.completeness
text_compression: contracts.TextVerdictModule = tasks.text.compression
text_confidence: contracts.TextVerdictModule = tasks.text.confidence
text_edge_errors: contracts.TextVerdictModule = tasks.text.edge_errors
text_empty_text: contracts.TextVerdictModule = tasks.text.empty_text
text_error_rate: contracts.TextVerdictModule = tasks.text.error_rate
text_hallucination: contracts.TextVerdictModule = tasks.text.hallucination
text_language: contracts.TextVerdictModule = tasks.text.language
text_language_agrees: contracts.TextVerdictModule = tasks.text.language_agrees
text_llm_label: contracts.TextVerdictModule = tasks.text.llm_label
text_logprob: contracts.TextVerdictModule = tasks.text.logprob
text_no_speech: contracts.TextVerdictModule = tasks.text.no_speech
text_pii: contracts.TextVerdictModule = tasks.text.pii
text_reference_confidence: contracts.TextVerdictModule = tasks.text.reference_confidence
text_repeated_text: contracts.TextVerdictModule = tasks.text.repeated_text
text_repetition: contracts.TextVerdictModule = tasks.text.repetition
text_style: contracts.TextVerdictModule = tasks.text.style
other_kind: contracts.ResamplerModule = tasks.levels.peak  # type: ignore[assignment]
