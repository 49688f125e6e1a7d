"""Run by Megatron-Energon's environment: the split `train` of the prepared folder."""

import hashlib
import json
import sys
from typing import Any

from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    get_loader,
    get_train_dataset,
    stateless,
)


@stateless  # type: ignore[untyped-decorator]
def cook(sample: Any) -> Any:
    [samples] = sample["wav"].get_audio().audio_clips
    digest = hashlib.sha256(samples.numpy().tobytes()).hexdigest()
    told = json.dumps({"text": sample["txt"], "sha256": digest})
    return TextSample(**basic_sample_keys(sample), text=told)


class Texts(DefaultTaskEncoder):  # type: ignore[misc]
    cookers = (Cooker(cook),)

    def batch(self, samples: Any) -> Any:
        return samples


dataset = get_train_dataset(
    f"{sys.argv[1]}/webdataset",
    split_part="train",
    batch_size=1,
    shuffle_buffer_size=None,
    max_samples_per_sequence=None,
    repeat=False,
    worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
    task_encoder=Texts(),
)
for batch in get_loader(dataset):
    for sample in batch:
        print(sample.text)
