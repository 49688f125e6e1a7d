"""Dataset weights: which share of a dataset's clips is packaged.

`package.weights: {podcasts: 0.3}` packages 0.3 of what all verdicts leave of the dataset, and drops
the rest as `package.weight` with its draw as value and the weight as threshold. A clip's draw comes
from the seed and its id alone: it stays from version to version, and raising a weight only adds.
Data-Juicer mixes datasets by such weights too, but takes a clip twice where a weight is above 1;
here a dataset never holds a clip twice, so that its ids are unique.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks import plugins
from tasks.errors import ConfigError
from tasks.job import Job
from tasks.packaging import balance
from tasks.settings import PackageSettings


def check(job: Job) -> None:
    """ConfigError when a weight is for no source of this run."""
    known = (
        [dataset.name for dataset in plugins.datasets(job.sources)] if job.package.weights else []
    )
    for name in job.package.weights:
        if name not in known:
            raise ConfigError(
                f"package.weights.{name}: there is no such dataset; there are: {', '.join(known)}"
            )


def keeps(settings: PackageSettings, dataset: str, utterance: str) -> bool:
    """Whether one clip's draw is below its dataset's weight."""
    weight = settings.weights.get(dataset, 1.0)
    return weight >= 1 or bool(_draws(settings, [utterance])[0] < weight)


def _draws(settings: PackageSettings, ids: Iterable[str]) -> NDArray[np.float64]:
    """From 0 to 1, of each id."""
    found: NDArray[np.float64] = balance.draws(f"{settings.seed}:weight", ids) / 2**64
    return found


def chances(settings: PackageSettings, rows: pa.Table) -> tuple[NDArray[np.float64], ...]:
    """(draw, weight) of each row (columns dataset and, with any weights, id): it is packaged where
    draw < weight.

    The draw is NaN, and the weight 1, where every clip of the dataset is packaged.
    """
    weight = np.ones(rows.num_rows)
    dataset = rows["dataset"].combine_chunks().dictionary_encode()
    codes = dataset.indices.to_numpy(zero_copy_only=False)
    for code, name in enumerate(dataset.dictionary.to_pylist()):
        weight[codes == code] = settings.weights.get(name, 1.0)
    some = np.flatnonzero(weight < 1)
    draw = np.full(rows.num_rows, np.nan)
    if len(some):
        draw[some] = _draws(settings, rows["id"].take(some).to_pylist())
    return draw, weight
