"""Settings of the cluster: where work runs, on how many workers, within which limits."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, Self

from pydantic import field_validator, model_validator

from flows.cluster.classes import cluster_class
from flows.cluster.gpus import NAME, Chosen, check_devices
from flows.cluster.tls import TlsSettings
from tasks import masking
from tasks.errors import ConfigError
from tasks.json_types import JsonObject
from tasks.settings import StageSettings, Transient


class ClusterSettings(StageSettings):
    """Where work runs; changes speed only."""

    kind: Literal["local", "address", "class"] = Transient(
        "local",
        "local: workers on this machine; address: a running scheduler; class: any Dask "
        "cluster class.",
    )
    workers: int | None = Transient(
        None,
        "Worker processes without a GPU; default: one per CPU that no GPU worker "
        "uses, at most 8, each with at least 1.5 GB.",
        ge=1,
    )
    gpus: Chosen = Transient(
        "auto",
        "GPUs for stages that can use one: auto (all that CUDA_VISIBLE_DEVICES "
        "allows), none, or a list of indices or UUIDs as shown by nvidia-smi -L.",
    )
    workers_per_gpu: int = Transient(1, "Worker processes per GPU; each loads the model.", ge=1)
    memory_limit: str = Transient(
        "auto",
        "Memory of a worker, such as 2GB; at 95 % of it the worker is killed and the "
        "culprit is found. auto: an equal share of 90 % of the machine's, at least 1.5 GB.",
    )
    asr_threads: int | None = Transient(
        None, "CPU threads of a recogniser; default: CPUs per worker, or 1 with a GPU.", ge=1
    )
    item_timeout: float = Transient(
        600.0, "Seconds after which an item that hangs is quarantined.", gt=0
    )
    timeout_factor: float = Transient(
        20.0, "A shard's deadline is item_timeout + this factor times its audio, in seconds.", gt=0
    )
    cache_gb: float = Transient(
        1.0,
        "GB of PCM that filter leaves for resample, in memory or on disk; without it, resample "
        "decodes again; 0: none.",
        ge=0,
    )
    address: str | None = Transient(None, "Scheduler, such as tcp://host:8786.")
    class_name: str | None = Transient(
        None, "Dotted name of a cluster class, such as dask_jobqueue.SLURMCluster."
    )
    options: JsonObject = Transient({}, "Arguments of the cluster class.")
    dashboard: bool = Transient(
        False, "Run Dask's dashboard on a free port of the loopback; needs bokeh."
    )
    performance_report: bool = Transient(
        False, "Write Dask's performance report into the run's folder; needs bokeh."
    )
    check_disk: bool = Transient(
        True, "Refuse to start when `uttermill estimate` forecast more disk than is free."
    )
    tls: TlsSettings | None = Transient(
        None, "Encrypts and authenticates all traffic of the cluster.", title="TLS"
    )

    @field_validator("memory_limit")
    @classmethod
    def _bytes(cls, value: str) -> str:
        if value != "auto":
            from dask.utils import parse_bytes

            parse_bytes(value)  # its ValueError says what it expects
        return value

    @field_validator("gpus")
    @classmethod
    def _names(cls, value: Chosen) -> Chosen:
        names = list(map(str, value)) if isinstance(value, tuple) else []
        wrong = [name for name in names if not NAME.fullmatch(name)]
        if wrong or len(set(names)) < len(names) or value == ():
            raise ValueError(
                "give auto, none, or a list of distinct indices or UUIDs (GPU-…, MIG-…)"
            )
        return value

    @field_validator("address")
    @classmethod
    def _no_credentials(cls, value: str | None) -> str | None:
        if value is not None and masking.text(value) != value:
            raise ValueError("the address of a scheduler holds no credentials; use cluster.tls")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "address" and not self.address:
            raise ValueError("kind address needs cluster.address, such as tcp://host:8786")
        if self.kind == "class" and not self.class_name:
            raise ValueError(
                "kind class needs cluster.class_name, such as dask_jobqueue.SLURMCluster"
            )
        if self.kind != "local" and isinstance(self.gpus, tuple):
            raise ValueError(
                "a list in cluster.gpus is for the kind local; give workers that you start "
                "yourself the Dask resource GPU=1, and CUDA_VISIBLE_DEVICES"
            )
        if self.tls and self.kind == "class":
            raise ValueError("cluster.tls is for the kinds local and address; use cluster.options")
        if self.tls and self.kind == "address" and not str(self.address).startswith("tls://"):
            raise ValueError("with cluster.tls, cluster.address starts with tls://")
        return self

    def rooted(self) -> Self:
        """The same with absolute paths."""
        return self.model_copy(update={"tls": self.tls.rooted()}) if self.tls else self

    def check(self) -> None:
        """ConfigError when the settings name something that does not exist. Starts nothing."""
        if self.dashboard and find_spec("bokeh") is None:
            raise ConfigError("cluster.dashboard needs bokeh: pip install bokeh, or turn it off")
        if self.performance_report and find_spec("bokeh") is None:
            raise ConfigError(
                "cluster.performance_report needs bokeh: pip install 'uttermill[dask-report]', or "
                "turn it off"
            )
        if self.kind == "class":
            cluster_class(self.class_name)
        check_devices(self.gpus)
        if self.tls:
            self.tls.check()
