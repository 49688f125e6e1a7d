"""Run by SpeechBrain's environment: the manifest of train."""

import hashlib
import json
import sys

import soundfile
from speechbrain.dataio.dataset import DynamicItemDataset

version = sys.argv[1]
clips = DynamicItemDataset.from_json(
    f"{version}/speechbrain/train.json", replacements={"data_root": version}
)
clips.set_output_keys(["id", "wav", "words", "duration"])
for clip in clips.filtered_sorted(sort_key="duration"):
    samples, rate = soundfile.read(clip["wav"], dtype="int16")
    assert int(clip["duration"] * rate) == len(samples)
    digest = hashlib.sha256(samples.tobytes()).hexdigest()
    print(json.dumps({"text": clip["words"], "sha256": digest}))
