"""Data-Juicer's and Microsoft's numbers the straightforward way, to hold ours against."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def plain_nmf_snr(samples: Floats) -> float:
    """Data-Juicer's formula by librosa and scikit-learn; float64's largest for silence."""
    import librosa

    spectrogram = np.abs(librosa.stft(samples))
    spectra, activations = librosa.decompose.decompose(
        spectrogram, n_components=2, init="random", random_state=0, max_iter=500
    )
    signal, noise = (
        np.mean(np.square(librosa.istft(spectra[:, i : i + 1] @ activations[i : i + 1])))
        for i in (0, 1)
    )
    if noise == 0:
        return float(np.finfo(np.float64).max)
    return float(10 * np.log10(signal / noise))


def single_threaded() -> Any:
    """speechmos's own scorer, on one thread."""
    import onnxruntime
    from speechmos import dnsmos

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    models = dnsmos.__file__.replace("dnsmos.py", "dnsmos_models/")
    scorer = dnsmos.DNSMOS(f"{models}sig_bak_ovr.onnx", f"{models}model_v8.onnx")
    providers = ["CPUExecutionProvider"]
    scorer.onnx_sess = onnxruntime.InferenceSession(
        scorer.primary_model_path, options, providers=providers
    )
    scorer.p808_onnx_sess = onnxruntime.InferenceSession(
        f"{models}model_v8.onnx", options, providers=providers
    )
    return scorer


def plain_dnsmos(scorer: Any, samples: Floats) -> dict[str, float]:
    """SIG, BAK and OVRL of 16 kHz samples in ±1, in our columns."""
    found = scorer(samples, 16_000, False)
    return {f"dnsmos_{part}": float(found[f"{part}_mos"]) for part in ("sig", "bak", "ovrl")}
