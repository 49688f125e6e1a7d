"""uttermill's library: the five stages, without Prefect and without a cluster."""

import os

# ONNX Runtime brings a telemetry client that starts when it is imported; nothing here may phone
# home. Set before any module can import it, in workers too.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
