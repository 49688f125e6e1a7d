"""Data-Juicer's own command on a list of clips, and ours with the same filters and limits.

Its release 1.4.3 needs older versions of some libraries than ours, so it runs in an environment of
its own. Give the benchmark that environment's command `dj-process`:

    pip install py-data-juicer==1.4.3 datasets==3.6.0 pyarrow==20.0.0 "pandas<3" soundfile

Newer pyarrow and pandas want NumPy 2, which Data-Juicer's release does not allow; datasets from 4
on decodes through torchcodec. A process for each of two cores needs `cpu_required` below 1: it
rounds 2 / (1 + 1e-9) down to one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

#: One BLAS and OpenMP thread a process, as ours has it in its workers.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
SHORTEST_S, LONGEST_S = 0.1, 30
SMALLEST, LARGEST = "1KiB", "1TiB"  # Data-Juicer's kilobytes are of 1024 bytes
LEAST_DB = 0
OURS = (
    "history=none",
    "filter.segmenter.use=whole",
    f"filter.filters=[{{use: duration, min: {SHORTEST_S}, max: {LONGEST_S}}}, "
    f"{{use: file_size, min: {SMALLEST}, max: {LARGEST}}}, {{use: nmf_snr, min: {LEAST_DB}}}]",
)


def recipe(source: Path, home: Path) -> Path:
    """Write the list of `source`'s clips and the configuration that filters it into `home`."""
    home.mkdir(parents=True)
    rows = [{"text": "", "audios": [str(path)]} for path in sorted(source.iterdir())]
    listed = home / "clips.jsonl"
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    two: dict[str, float | str] = {"cpu_required": 0.9}
    filters: dict[str, dict[str, float | str]] = {
        "audio_duration_filter": {"min_duration": SHORTEST_S, "max_duration": LONGEST_S},
        "audio_size_filter": {
            "min_size": SMALLEST.replace("i", ""),
            "max_size": LARGEST.replace("i", ""),
        },
        "audio_nmf_snr_filter": {"min_snr": LEAST_DB},
    }
    config = {
        "dataset_path": str(listed),
        "export_path": str(_kept_list(home)),
        "np": 2,
        "use_cache": False,
        "process": [{name: {**limits, **two}} for name, limits in filters.items()],
    }
    path = home / "recipe.yaml"
    path.write_text(json.dumps(config))  # which is YAML
    return path


def _kept_list(home: Path) -> Path:
    return home / "out" / "kept.jsonl"


def kept(home: Path) -> set[str]:
    """Names of the files that Data-Juicer kept."""
    lines = _kept_list(home).read_text().splitlines() if _kept_list(home).exists() else []
    return {Path(json.loads(line)["audios"][0]).name for line in lines}


def kept_by_ours(out: Path) -> set[str]:
    """Names of the files in the dataset that our run published."""
    table = pq.read_table(out / "datasets/latest/utterances.parquet", columns=["source_path"])
    return {Path(path).name for path in table["source_path"].to_pylist()}
