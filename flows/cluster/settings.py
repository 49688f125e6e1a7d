"""Settings of the cluster: where the work is done, by how many, within which limits."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from flows.cluster.gpus import NAME, Chosen, check_devices
from tasks import masking
from tasks.errors import ConfigError
from tasks.settings import TRANSIENT, StageSettings


class TlsSettings(StageSettings):
    """Certificates of the cluster's traffic, by path; one pair for scheduler, workers and client.

    Each side proves by the authority that the other one may speak to it: who has no certificate
    of it is refused.
    """

    ca_file: str = Field(json_schema_extra=TRANSIENT, description="Authority's certificate, PEM.")
    cert: str = Field(json_schema_extra=TRANSIENT, description="Certificate of this user, PEM.")
    key: str = Field(
        json_schema_extra=TRANSIENT, description="Its private key, PEM, without a passphrase."
    )

    def rooted(self) -> Self:
        """The same with absolute paths: workers start in folders of their own."""
        paths = {name: os.path.abspath(path) for name, path in self}
        return self.model_copy(update=paths)

    def check(self) -> None:
        """ConfigError when a file cannot be read or is not what it should be."""
        for name, path in self:
            try:
                with open(path, "rb"):
                    pass
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                raise ConfigError(f"cluster.tls.{name}: {path} cannot be read ({why})") from None
        try:
            ssl.create_default_context(cafile=self.ca_file)
        except ssl.SSLError:
            raise ConfigError(
                f"cluster.tls.ca_file: {self.ca_file} holds no certificate in PEM"
            ) from None
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_cert_chain(self.cert, self.key, password="")  # else it asks the terminal
        except ssl.SSLError:
            raise ConfigError(
                f"cluster.tls: {self.cert} and {self.key} are not a certificate and its key in "
                "PEM, without a passphrase"
            ) from None

    def security(self) -> Any:
        """A `distributed.Security` that refuses plain traffic."""
        import distributed

        made: Any = distributed.Security  # untyped
        pair = {
            f"tls_{role}_{part}": getattr(self, part)
            for role in ("scheduler", "worker", "client")
            for part in ("cert", "key")
        }
        return made(require_encryption=True, tls_ca_file=self.ca_file, **pair)


class ClusterSettings(StageSettings):
    """Where the work is done; changes speed only."""

    kind: Literal["local", "address", "class"] = Field(
        default="local", json_schema_extra=TRANSIENT,
        description="Workers on this machine, a running scheduler, or any Dask cluster class.",
    )  # fmt: skip
    workers: int | None = Field(
        default=None, ge=1, json_schema_extra=TRANSIENT,
        description="Worker processes without a GPU; default: one a CPU that no GPU worker takes, "
        "at most 8, each with 1.5 GB at least.",
    )  # fmt: skip
    gpus: Chosen = Field(
        default="auto", json_schema_extra=TRANSIENT,
        description="GPUs for what can use one: auto (all that CUDA_VISIBLE_DEVICES allows), none, "
        "or a list of indices or UUIDs, as nvidia-smi -L has them.",
    )  # fmt: skip
    workers_per_gpu: int = Field(
        default=1, ge=1, json_schema_extra=TRANSIENT,
        description="Worker processes on each GPU; each one loads the model.",
    )  # fmt: skip
    memory_limit: str = Field(
        default="auto", json_schema_extra=TRANSIENT,
        description="Memory of a worker, as in 2GB; at 95 % of it the worker is killed and the "
        "culprit is found. auto: an equal part of 90 % of the machine's, at least 1.5 GB.",
    )  # fmt: skip
    asr_threads: int | None = Field(
        default=None, ge=1, json_schema_extra=TRANSIENT,
        description="CPU threads of a recogniser; default: CPUs per worker; 1 beside a GPU.",
    )  # fmt: skip
    item_timeout: float = Field(
        default=600.0, gt=0, json_schema_extra=TRANSIENT,
        description="Seconds after which an item that hangs is quarantined.",
    )  # fmt: skip
    timeout_factor: float = Field(
        default=20.0, gt=0, json_schema_extra=TRANSIENT,
        description="A shard's deadline: item_timeout + this many times its audio.",
    )  # fmt: skip
    cache_gb: float = Field(
        default=1.0, ge=0, json_schema_extra=TRANSIENT,
        description="Disk on which filter may leave a shard's PCM for resample, which else decodes "
        "again; 0: none.",
    )  # fmt: skip
    address: str | None = Field(
        default=None, json_schema_extra=TRANSIENT, description="Scheduler, as tcp://host:8786."
    )
    class_name: str | None = Field(
        default=None, json_schema_extra=TRANSIENT,
        description="Dotted name of a cluster class, as dask_jobqueue.SLURMCluster.",
    )  # fmt: skip
    options: dict[str, Any] = Field(
        default={}, json_schema_extra=TRANSIENT, description="Arguments of the cluster class."
    )
    dashboard: bool = Field(
        default=False, json_schema_extra=TRANSIENT,
        description="Dask's dashboard on a free port of the loopback; needs bokeh.",
    )  # fmt: skip
    performance_report: bool = Field(
        default=False, json_schema_extra=TRANSIENT,
        description="Write Dask's performance report of the run into its folder; needs bokeh.",
    )  # fmt: skip
    check_disk: bool = Field(
        default=True, json_schema_extra=TRANSIENT,
        description="Refuse to start when `uttermill estimate` forecast more disk than is free.",
    )  # fmt: skip
    tls: TlsSettings | None = Field(
        default=None, title="TLS", json_schema_extra=TRANSIENT,
        description="Encrypts and authenticates all traffic of the cluster.",
    )  # fmt: skip

    @field_validator("memory_limit")
    @classmethod
    def _bytes(cls, value: str) -> str:
        if value != "auto":
            from dask.utils import parse_bytes

            parse_bytes(value)  # a ValueError of its own says what it wants
        return value

    @field_validator("gpus")
    @classmethod
    def _names(cls, value: Chosen) -> Chosen:
        names = list(map(str, value)) if isinstance(value, tuple) else []
        wrong = [name for name in names if not NAME.fullmatch(name)]
        if wrong or len(set(names)) < len(names) or value == ():
            raise ValueError(
                "give auto, none, or a list of indices or UUIDs (GPU-…, MIG-…), each one once"
            )
        return value

    @field_validator("address")
    @classmethod
    def _no_credentials(cls, value: str | None) -> str | None:
        if value is not None and masking.text(value) != value:
            raise ValueError("a scheduler takes no credentials in its address; use cluster.tls")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "address" and not self.address:
            raise ValueError("kind address needs cluster.address, as tcp://host:8786")
        if self.kind == "class" and not self.class_name:
            raise ValueError("kind class needs cluster.class_name, as dask_jobqueue.SLURMCluster")
        if self.kind != "local" and isinstance(self.gpus, tuple):
            raise ValueError(
                "a list in cluster.gpus is for the kind local; workers that others start have the "
                "Dask resource GPU=1 each, and CUDA_VISIBLE_DEVICES"
            )
        if self.tls and self.kind == "class":
            raise ValueError("cluster.tls is for the kinds local and address; use options")
        if self.tls and self.kind == "address" and not str(self.address).startswith("tls://"):
            raise ValueError("with cluster.tls, cluster.address starts with tls://")
        return self

    def rooted(self) -> Self:
        """The same with absolute paths."""
        return self.model_copy(update={"tls": self.tls.rooted()}) if self.tls else self

    def check(self) -> None:
        """ConfigError when the settings name what is not there. Starts nothing."""
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


def cluster_class(name: str | None) -> Callable[..., Any]:
    """A cluster class by its dotted name; ConfigError when it cannot be imported."""
    module, _, attribute = (name or "").rpartition(".")
    try:
        with _interrupts_kept():
            found: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"cluster.class_name: {name!r} cannot be imported: {error}") from error
    return found


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """What an import does to Ctrl-C is undone: dask_jobqueue lets it end the process at once."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
