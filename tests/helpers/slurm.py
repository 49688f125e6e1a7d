"""A Slurm of its own on the loopback: munge, a controller and two nodes on this machine.

Nothing of it is left, and no other Slurm is touched: its commands read SLURM_CONF.
"""

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import psutil

from tests.faults.command import soon

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
MISSING = [name for name in DAEMONS if shutil.which(name) is None]
NODES = ("n1", "n2")
VARIABLE = "SLURM_CONF"
CONFIGURATION = """\
ClusterName=uttermill
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/controller.pid
SlurmdPidFile={home}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
KillWait=30
{nodes}
PartitionName=cpu Nodes=ALL Default=YES State=UP MaxTime=INFINITE
PartitionName=down Nodes=ALL State=DOWN
"""


@dataclass(frozen=True)
class Slurm:
    """A running Slurm: the environment in which its commands work."""

    environment: dict[str, str]

    def __call__(self, *words: str) -> str:
        """What one of its commands prints."""
        done = subprocess.run(
            words, env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self, states: str = "running,pending,completing,suspended") -> list[str]:
        """Ids of jobs in these states."""
        return self("squeue", "--noheader", f"--states={states}", "--format=%i").split()


@contextmanager
def running() -> Iterator[Slurm]:
    """A Slurm whose nodes are idle. Root only: other users cannot start jobs as themselves."""
    home = Path(mkdtemp(prefix="uttermill-slurm-", dir="/tmp"))
    try:
        controller, *ports = free_ports(1 + len(NODES))
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (home / name).mkdir()
        nodes = "\n".join(
            f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=8 "
            "RealMemory=16000 State=UNKNOWN"
            for node, port in zip(NODES, ports, strict=True)
        )
        words = {"home": home, "controller": controller, "nodes": nodes}
        configuration = home / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(**words))
        (home / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/{cgroup_version()}\n")
        key = home / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        slurm = Slurm({VARIABLE: str(configuration)})
        with ExitStack() as daemons:
            daemons.enter_context(daemon(
                home, slurm, "munged", "--foreground", "--force", f"--key-file={key}",
                f"--socket={home}/munge.socket", f"--pid-file={home}/munge.pid",
                f"--seed-file={home}/munge.seed", f"--log-file={home}/munge.log",
            ))  # fmt: skip
            assert soon((home / "munge.socket").exists, 20)
            daemons.enter_context(daemon(home, slurm, "slurmctld", "-D", "-c"))
            for node in NODES:
                daemons.enter_context(daemon(home, slurm, "slurmd", "-D", "-N", node))
            idle = ("sinfo", "--noheader", "--partition=cpu", "--format=%D %T")
            assert soon(lambda: f"{len(NODES)} idle" in asked(slurm, *idle), every=0.2), log(home)
            try:
                yield slurm
            finally:
                for job in slurm.jobs():
                    slurm("scancel", job)
                soon(lambda: not slurm.jobs(), every=0.2)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def daemon(home: Path, slurm: Slurm, *words: str) -> Iterator[None]:
    """A process of Slurm's in the foreground, ended with its children."""
    with (home / "log").open("ab") as out:
        process = subprocess.Popen(
            words, env={**os.environ, **slurm.environment}, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, cwd=home, start_new_session=True,
        )  # fmt: skip
    try:
        yield
    finally:
        of_jobs = []
        with suppress(psutil.NoSuchProcess):
            of_jobs = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in of_jobs:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def asked(slurm: Slurm, *words: str) -> str:
    """What a command prints; nothing while the controller does not answer."""
    try:
        return slurm(*words)
    except (AssertionError, subprocess.TimeoutExpired):
        return ""


def log(home: Path) -> str:
    return (home / "log").read_text(errors="replace")


def cgroup_version() -> str:
    return "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nothing listens at."""
    with ExitStack() as open_:
        sockets = [
            open_.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]
