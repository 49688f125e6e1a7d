"""Settings of the cluster: where work runs, on how many workers, within which limits."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.settings import StageSettings, Transient
from ...tasks.settings.base import FIXED, WORDS, Memory
from . import address
from .gpus import NAME, Chosen, check_devices

if TYPE_CHECKING:
    from distributed import Security


#: Packages of Dask cluster classes, all of which derive from distributed's.
CLASS_PACKAGES = (
    *("distributed", "dask.distributed", "dask_jobqueue", "dask_kubernetes", "dask_cuda"),
    *("dask_cloudprovider", "coiled"),
)


class TlsSettings(StageSettings):
    """Certificates of the cluster's traffic, by path; one pair for scheduler, workers and client.

    Each side checks the other's certificate against the authority, and refuses any other.
    """

    ca_file: str = Transient(..., "Authority's certificate, PEM.")
    cert: str = Transient(..., "Certificate of this user, PEM.")
    key: str = Transient(..., "Its private key, PEM, without a passphrase.")

    def rooted(self) -> Self:
        """A copy with absolute paths, because workers start in folders of their own."""
        paths = {name: os.path.abspath(path) for name, path in self}
        return self.model_copy(update=paths)

    def check(self) -> None:
        """Raises ConfigError if a file cannot be read or is not a certificate or key in PEM."""
        for name, path in self:
            try:
                with open(path, "rb"):
                    pass
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise ConfigError(f"cluster.tls.{name}: {path} cannot be read ({why})") from None
        try:
            ssl.create_default_context(cafile=self.ca_file)
        except ssl.SSLError:
            raise ConfigError(
                f"cluster.tls.ca_file: {self.ca_file} is not a certificate in PEM"
            ) from None
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_cert_chain(self.cert, self.key, password="")  # without one, it prompts
        except ssl.SSLError:
            raise ConfigError(
                f"cluster.tls: {self.cert} and {self.key} are not a certificate and its key in "
                "PEM, without a passphrase"
            ) from None
        for name in ("ca_file", "cert"):
            _check_dates(f"cluster.tls.{name}: {getattr(self, name)}", Path(getattr(self, name)))

    def security(self) -> Security:
        import distributed

        roles = ("scheduler", "worker", "client")
        pair = {f"tls_{role}_cert": self.cert for role in roles}
        pair |= {f"tls_{role}_key": self.key for role in roles}
        return distributed.Security(  # type: ignore[no-untyped-call]
            require_encryption=True, tls_ca_file=self.ca_file, **pair
        )


def _check_dates(name: str, path: Path) -> None:
    """Raises ConfigError if no certificate in a PEM file is valid now."""
    from cryptography import x509

    now = datetime.now(UTC)
    certificates = x509.load_pem_x509_certificates(path.read_bytes())
    if any(c.not_valid_before_utc <= now <= c.not_valid_after_utc for c in certificates):
        return
    first = certificates[0]
    if now < first.not_valid_before_utc:
        raise ConfigError(
            f"{name} is not valid before {first.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check "
            "this machine's clock, or give one that is valid"
        )
    raise ConfigError(
        f"{name} expired on {first.not_valid_after_utc:%Y-%m-%d at %H:%M} UTC; give a new one"
    )


class WorkerRange(StageSettings):
    """As many workers of a cluster class as there are calls for, within limits."""

    min: int = Transient(0, "Workers that are kept whatever there is to do.", ge=0)
    max: int = Transient(..., "Workers that there are at most.", ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min is {self.min}, above max, which is {self.max}")
        return self


class ClusterSettings(StageSettings):
    """Where work runs; changes speed only."""

    kind: Literal["local", "address", "class"] = Transient(
        "local",
        "local: workers on this machine; address: a running scheduler; class: any Dask "
        "cluster class.",
        mark=FIXED,
    )
    workers: Annotated[int, Field(ge=1)] | WorkerRange | None = Transient(
        None,
        "Worker processes without a GPU; default: one per CPU that no GPU worker "
        "uses, at most 8, each with 1 GB beyond its libraries and models. For kind class: workers "
        "that are kept alive, or {min: …, max: …}, between which their number follows the work.",
    )
    wait_for_workers: float = Transient(
        1800.0,
        "Seconds that a run waits while there is no worker, for kinds address and class; what the "
        "queue says is logged every minute, and stands in the error that ends the run.",
        gt=0,
    )
    mixed: bool = Transient(
        False,
        "Let workers of kinds address and class compute although their code, libraries or kind of "
        "processor differ from this process's; dataset.json then says in what. Workers with other "
        "weights are refused even so: their results would lie where the run does not look.",
    )
    gpus: Chosen = Transient(
        "auto",
        "GPUs for stages that can use one: auto (all that CUDA_VISIBLE_DEVICES "
        "allows), none, or a list of indices or UUIDs as shown by nvidia-smi -L.",
        mark=WORDS,
    )
    workers_per_gpu: int = Transient(1, "Worker processes per GPU; each loads the model.", ge=1)
    memory_limit: Memory = Transient(
        "auto",
        "Memory of a worker, such as 2GB; at 95 % of it the worker is killed and the "
        "culprit is found. auto: an equal share of 90 % of what this run may take.",
        mark=WORDS,
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
        "GB of PCM of one recording that filter makes while it decodes, on a worker's disk; "
        "resample decodes again for the rest; 0: for all.",
        ge=0,
    )
    address: str | None = Transient(None, "Scheduler, such as tcp://host:8786.", mark=FIXED)
    class_name: str | None = Transient(
        None, "Dotted name of a cluster class, such as dask_jobqueue.SLURMCluster.", mark=FIXED
    )
    class_packages: tuple[str, ...] = Transient(
        CLASS_PACKAGES,
        "Packages, or modules in them, that the cluster class may come from; given, it is the "
        "whole list.",
        mark=FIXED,
    )
    options: JsonObject = Transient({}, "Arguments of the cluster class.", mark=FIXED)
    dashboard: bool = Transient(
        False,
        "Run Dask's dashboard on a free port of the loopback, where all users of this machine see "
        "it; needs bokeh.",
    )
    performance_report: bool = Transient(
        False, "Write Dask's performance report into the run's folder; needs bokeh."
    )
    check_disk: bool = Transient(
        True, "Refuse to start when `uttermill estimate` forecast more disk than is free."
    )
    max_recompute_hours: float | None = Transient(
        None,
        "Refuse to start when a run would compute more hours of audio again that an earlier run "
        "has done, after an upgrade, say; default: no limit.",
        ge=0,
    )
    tls: Literal["auto", "none"] | TlsSettings = Transient(
        "auto",
        "Encrypts and authenticates all traffic of the cluster. auto: a local cluster makes a "
        "certificate of its own, others have none; none: any user of the machine may run code on "
        "the workers; or the certificates to use.",
        title="TLS",
        mark=FIXED,
    )

    @field_validator("memory_limit")
    @classmethod
    def _bytes(cls, value: str) -> str:
        if value != "auto":
            from dask.utils import parse_bytes

            try:
                enough = parse_bytes(value) > 0
            except ValueError:
                enough = False
            if not enough:
                raise ValueError("it must be auto or a size, such as 500MB or 4GB")
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
    def _names_a_port(cls, value: str | None) -> str | None:
        if value is None or address.is_one(value):
            return value and value.rstrip("/")
        if "@" in value:
            raise ValueError("the address of a scheduler holds no credentials; use cluster.tls")
        raise ValueError("give the host and the port of a scheduler: tcp://HOST:8786, or tls://")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "address" and not self.address:
            raise ValueError("kind address needs cluster.address, such as tcp://host:8786")
        if self.kind == "class" and not self.class_name:
            raise ValueError(
                "kind class needs cluster.class_name, such as dask_jobqueue.SLURMCluster"
            )
        # Before anything is imported, which would run the module's code.
        if self.class_name and not f"{self.class_name}.".startswith(
            tuple(f"{package}." for package in self.class_packages if package)
        ):
            raise ValueError(
                f"cluster.class_name: {self.class_name!r} is in none of the packages of Dask "
                f"cluster classes ({', '.join(self.class_packages)}); for a class of your own, "
                "list its package in cluster.class_packages"
            )
        if self.kind != "local" and isinstance(self.gpus, tuple):
            raise ValueError(
                "a list in cluster.gpus is for the kind local; give workers that you start "
                "yourself the Dask resource GPU=1, and CUDA_VISIBLE_DEVICES"
            )
        if self.kind != "class" and isinstance(self.workers, WorkerRange):
            raise ValueError("a range in cluster.workers is for the kind class; give a number")
        certificates = isinstance(self.tls, TlsSettings)
        if certificates and self.kind == "class":
            raise ValueError(
                "cluster.tls works with kind local or address; for kind class give TLS in "
                "cluster.options"
            )
        encrypted = str(self.address).startswith("tls://")
        if certificates and self.kind == "address" and not encrypted:
            raise ValueError("with cluster.tls, cluster.address starts with tls://")
        return self

    @property
    def most_workers(self) -> int | None:
        """The most worker processes without a GPU that are asked for; None: as many as fit."""
        return self.workers.max if isinstance(self.workers, WorkerRange) else self.workers

    def rooted(self) -> Self:
        """The same with absolute paths."""
        if not isinstance(self.tls, TlsSettings):
            return self
        return self.model_copy(update={"tls": self.tls.rooted()})

    def check(self) -> None:
        """Raises ConfigError if the settings name something that does not exist."""
        for name in ("dashboard", "performance_report"):
            if getattr(self, name) and find_spec("bokeh") is None:
                raise ConfigError(
                    f"cluster.{name} needs bokeh: pip install 'uttermill[dask-report]', or turn it "
                    "off"
                )
        if self.kind == "class":
            cluster_class(self.class_name)
        check_devices(self.gpus)
        if isinstance(self.tls, TlsSettings):
            self.tls.check()
        elif self.kind == "address" and str(self.address).startswith("tls://"):
            from dask.config import get

            if not get("distributed.comm.tls.client.cert", None):
                raise ConfigError(
                    f"cluster.address is {self.address}, so cluster.tls has to give the "
                    "certificates of that cluster: ca_file, cert and key"
                )

    def new_cluster(self) -> Any:
        """A cluster of the named class; ConfigError if the options do not fit it."""
        maker = cluster_class(self.class_name)
        try:
            return maker(**self.options)
        except (TypeError, ValueError) as error:  # mostly an unknown option
            raise ConfigError(f"cluster.options do not fit {self.class_name}: {error}") from error


def cluster_class(name: str | None) -> Callable[..., Any]:
    """A cluster class by its dotted name; ConfigError for anything else."""
    module, _, attribute = (name or "").rpartition(".")
    try:
        with _interrupts_kept():
            from distributed.deploy.cluster import Cluster

            candidate: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"cluster.class_name: {name!r} cannot be imported: {error}") from error
    if not (isinstance(candidate, type) and issubclass(candidate, Cluster)):
        raise ConfigError(
            f"cluster.class_name: {name!r} is not a Dask cluster class, which derives from "
            "distributed.deploy.Cluster"
        )
    return candidate


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Undo what an import does to Ctrl-C: dask_jobqueue makes it end the process at once."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
