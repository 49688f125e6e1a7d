"""uttermill's library: the five stages, without Prefect and without a cluster."""

from tasks.base import environment, moved

environment.no_telemetry()  # before any module can import ONNX Runtime, in workers too
moved.install()
