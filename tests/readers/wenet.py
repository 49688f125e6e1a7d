"""Run by an environment for WeNet, on a checkout: its data pipes read the shards of train.

The pipes are those of `wenet/dataset/datapipes.py`; no model is made.
"""

import hashlib
import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path

sys.path.insert(0, sys.argv[2])
source = import_module("wenet.dataset.datapipes").WenetTarShardDatasetSource

home = Path(sys.argv[1]) / "wenet/train"
with tempfile.NamedTemporaryFile("w", suffix=".list") as listed:
    listed.write("".join(f"{path}\n" for path in sorted(home.glob("*.tar"))))
    listed.flush()
    for sample in source(listed.name, shuffle=False):
        digest = hashlib.sha256(sample["wav"][44:]).hexdigest()
        print(json.dumps({"text": sample["txt"], "sha256": digest}))
