"""Everything in infra/ is what the tools that read it accept; each check has a control that fails.

Compose's and Kubernetes' own schemas, the Dask operator's resource definition, hadolint, and the
command lines' own parsers. The image is built without Docker, and Slurm is two small commands.
"""

import copy
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from prefect.settings import Settings

from tests.faults.command import Site, differences, soon
from tests.helpers import corpus, image, listeners
from tests.helpers.listeners import Place
from uttermill.flows import settings
from uttermill.flows.cli.command_line import parser as command_parser
from uttermill.flows.cluster import leaving
from uttermill.flows.cluster.settings import ClusterSettings, cluster_class

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
SCRIPTS = Path(sysconfig.get_path("scripts"))
OLDEST = "1.30"  # of Kubernetes


def load(name: str) -> Any:
    return yaml.safe_load((INFRA / name).read_text())


# Compose


def compose_faults(data: Any) -> list[str]:
    schema = json.loads(
        (files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text()
    )
    made = jsonschema.validators.validator_for(schema)(schema)
    return [f"{error.json_path}: {error.message}" for error in made.iter_errors(data)]


def test_compose_file() -> None:
    data = load("compose.yaml")
    assert compose_faults(data) == []
    services = data["services"]
    for name, service in services.items():
        for other in (needed := service.get("depends_on", ())):
            condition = needed[other]["condition"] if isinstance(needed, dict) else "started"
            assert other in services, name
            assert "healthy" not in condition or "healthcheck" in services[other], (name, other)
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source.startswith(("$", ".", "/")) or source in data["volumes"], name


def test_the_prefect_server_of_compose_keeps_other_sites_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Prefect reads its environment."""
    variables = load("compose.yaml")["services"]["prefect-server"]["environment"]
    assert variables["PREFECT_SERVER_API_AUTH_STRING"] == "${PREFECT_AUTH}"
    for name, value in variables.items():
        monkeypatch.setenv(name, re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value))
    server = Settings().server
    assert server.api.auth_string is not None
    assert server.api.csrf_protection_enabled
    assert server.api.cors_allowed_origins == "http://127.0.0.1:4200"
    assert server.ui.api_url == "/api"


def test_prefects_pages_are_written_where_the_image_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its code, Prefect's server could not put them: its address was 404."""
    variables = dict(
        word.split("=", 1)
        for name, value in image.steps(INFRA / "Dockerfile") if name == "ENV"
        for word in shlex.split(value)
    )  # fmt: skip
    monkeypatch.setenv("PREFECT_UI_STATIC_DIRECTORY", variables["PREFECT_UI_STATIC_DIRECTORY"])
    assert str(Settings().server.ui.static_directory).startswith("/tmp/")


def test_compose_services_may_do_little() -> None:
    services = load("compose.yaml")["services"]
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"], name
        assert {"/tmp"} <= {*service.get("volumes", ()), *service.get("tmpfs", ())}, name
        assert service.get("environment", {}).get("PREFECT_HOME", "/tmp/").startswith("/tmp/"), name
    assert {name for name, service in services.items() if "ports" in service} == {"prefect-server"}
    assert {name for name, s in services.items() if "cap_add" in s} == {"postgres"}
    on = {net: {n for n, s in services.items() if net in s["networks"]}
          for net in load("compose.yaml")["networks"]}  # fmt: skip
    assert on == {
        "dask": {"dask-scheduler", "dask-worker", "prefect-worker", "run"},
        "prefect": {"prefect-server", "prefect-worker", "run"},
        "database": {"postgres", "prefect-server"},
    }


def test_what_compose_stops_has_time_to_end() -> None:
    """Compose kills after 10 s by default; a pod has the 30 s that DRAIN_S reckons with."""
    services = load("compose.yaml")["services"]
    for name in ("dask-worker", "prefect-worker", "run"):
        seconds = services[name].get("stop_grace_period", "10s").removesuffix("s")
        assert int(seconds) >= leaving.DRAIN_S + 12, name


@pytest.mark.nightly
def test_every_command_knows_its_options() -> None:
    for where, command in commands():
        assert unknown(command) == [], where
    assert unknown(["dask", "worker", "--nthread", "1"]) == ["--nthread"]
    assert unknown(["prefect", "server", "start", "--hots", "x"]) == ["--hots"]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line of infra/ that an image runs, with the place that it stands at."""
    for name, service in load("compose.yaml")["services"].items():
        if "entrypoint" in service:
            yield f"compose {name}", [*service["entrypoint"], *service.get("command", ())]
    spec = load("k8s/dask-cluster.yaml")["spec"]
    for name in ("worker", "scheduler"):
        for container in spec[name]["spec"]["containers"]:
            yield f"k8s {name}", [*container["command"], *container["args"]]


def unknown(command: list[str]) -> list[str]:
    """Options that the program does not have."""
    from distributed.cli import dask_scheduler, dask_worker

    given = [word.split("=")[0] for word in command if word.startswith("--")]
    parsers: dict[tuple[str, ...], Any] = {
        ("dask", "worker"): dask_worker.main, ("dask", "scheduler"): dask_scheduler.main,
    }  # fmt: skip
    if parser := parsers.get(tuple(command[:2])):
        known = {o for p in parser.params for o in (*p.opts, *p.secondary_opts)}
        return [word for word in given if word not in known]
    if command[0] == "uttermill":
        command_parser().parse_args([*command[1:], "settings.yaml"])
        return []
    words = command[: next((i for i, w in enumerate(command) if w.startswith("-")), None)]
    return [word for word in given if not re.search(rf"{word}\b", told(*words))]


@cache
def told(program: str, *words: str) -> str:
    """What it says about its options."""
    return subprocess.run(
        [str(SCRIPTS / program), *words, "--help"],
        check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"},
    ).stdout  # fmt: skip


# Kubernetes


def closed(schema: Any) -> Any:
    """A resource definition's schema that refuses what the server would drop in silence."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    open_ = "additionalProperties" in found or found.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(found.get("properties"), dict) and found.get("type") == "object" and not open_:
        found["additionalProperties"] = False
    return found


@pytest.fixture(scope="module")
def dask_cluster() -> Any:
    """Validator of DaskCluster resources, from the operator's own chart."""
    chart = files("dask_kubernetes") / "operator/deployment/helm/dask-kubernetes-operator/crds"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition = yaml.load((chart / "daskcluster.yaml").read_text(), loader)
    (version,) = (v for v in definition["spec"]["versions"] if v["storage"])
    schema = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {"metadata": {"type": "object"}, "apiVersion": {}, "kind": {}}
    return jsonschema.Draft202012Validator(schema)


def kubernetes_faults(data: Any, release: str) -> str:
    try:
        kubernetes_validate.validate(data, release, strict=True)
    except kubernetes_validate.ValidationError as error:
        return str(error)
    return ""


def pods() -> Iterator[tuple[str, Any]]:
    spec = load("k8s/dask-cluster.yaml")["spec"]
    yield "worker", spec["worker"]["spec"]
    yield "scheduler", spec["scheduler"]["spec"]
    yield "run", load("k8s/run.yaml")["spec"]["template"]["spec"]


@pytest.mark.parametrize("release", [OLDEST, kubernetes_validate.latest_version()])
def test_kubernetes_files(release: str) -> None:
    service = load("k8s/dask-cluster.yaml")["spec"]["scheduler"]["service"]
    resources = [
        load("k8s/run.yaml"), load("k8s/storage.yaml"),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": service},
    ]  # fmt: skip
    resources += [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        for name, spec in pods()
    ]
    for resource in resources:
        assert kubernetes_faults(resource, release) == "", resource["kind"]
    job, claim, *_ = copy.deepcopy(resources)
    job["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    assert "volumeMount" in kubernetes_faults(job, release)
    claim["spec"]["accessMode"] = ["ReadWriteMany"]
    assert "accessMode" in kubernetes_faults(claim, release)


def locked(pod: Any) -> bool:
    """Whether a pod has what Kubernetes' restricted profile asks for, and less."""
    own = pod.get("securityContext", {})
    mounts = {v["name"] for v in pod.get("volumes", ()) if "emptyDir" in v}
    return (
        pod.get("automountServiceAccountToken") is False
        and own.get("runAsNonRoot") is True
        and own.get("seccompProfile") == {"type": "RuntimeDefault"}
        and all(
            container.get("securityContext")
            == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            and "/tmp" in {m["mountPath"] for m in container["volumeMounts"] if m["name"] in mounts}
            for container in pod["containers"]
        )
    )


def test_pods_may_do_little() -> None:
    for name, pod in pods():
        assert locked(pod), name
        for key in ("automountServiceAccountToken", "securityContext", "volumes"):
            assert not locked({k: v for k, v in pod.items() if k != key}), key
        (container,) = pod["containers"]
        assert not locked({**pod, "containers": [{**container, "securityContext": {}}]}), name


def policies() -> dict[str, Any]:
    documents = yaml.safe_load_all((INFRA / "k8s/network.yaml").read_text())
    return {document["metadata"]["name"].removeprefix("uttermill-"): document
            for document in documents}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("release", [OLDEST, kubernetes_validate.latest_version()])
def test_network_policies(release: str) -> None:
    """Each pod takes calls only from those that work with it."""
    from dask_kubernetes.operator.controller import controller

    for name, policy in policies().items():
        assert kubernetes_faults(policy, release) == "", name
        assert policy["spec"]["policyTypes"] == ["Ingress"]
    spec = load("k8s/dask-cluster.yaml")["spec"]
    cluster = {"dask.org/cluster-name": "uttermill"}
    makers = {
        "scheduler": controller.build_scheduler_deployment_spec(
            "uttermill", spec["scheduler"]["spec"], {}, {}
        ),
        "worker": controller.build_worker_deployment_spec(
            "uttermill-default", None, "uttermill", "w", spec["worker"]["spec"], {}, {}
        ),
        "run": load("k8s/run.yaml"),
    }
    labels = {name: made["spec"]["template"]["metadata"]["labels"] for name, made in makers.items()}
    assert labels["scheduler"].items() >= cluster.items()

    def reached(name: str, by: str) -> set[int]:
        """Ports of a pod that another reaches; 0 for all."""
        policy = policies()[name]["spec"]
        assert labels[name].items() >= policy["podSelector"]["matchLabels"].items()
        return {
            port["port"]
            for rule in policy.get("ingress", ())
            for who in rule["from"]
            if labels[by].items() >= who.get("podSelector", {"matchLabels": {"": ""}})[
                "matchLabels"].items()
            for port in rule.get("ports", [{"port": 0}])
        }  # fmt: skip

    assert {(name, by): reached(name, by) for name in labels for by in labels} == {
        ("scheduler", "scheduler"): set(), ("scheduler", "worker"): {8786},
        ("scheduler", "run"): {8786}, ("worker", "scheduler"): {0}, ("worker", "worker"): {0},
        ("worker", "run"): set(), ("run", "scheduler"): set(), ("run", "worker"): set(),
        ("run", "run"): set(),
    }  # fmt: skip


def test_dask_cluster_is_one_for_the_operator(dask_cluster: Any) -> None:
    data = load("k8s/dask-cluster.yaml")
    assert list(dask_cluster.iter_errors(data)) == []
    for path, wrong in (("worker", "replica"), ("scheduler", "services"), ("", "workers")):
        other = copy.deepcopy(data)
        (other["spec"][path] if path else other["spec"])[wrong] = 1
        assert wrong in str([error.message for error in dask_cluster.iter_errors(other)])
    deep = copy.deepcopy(data)
    deep["spec"]["worker"]["spec"]["containers"][0]["arg"] = []
    assert "'arg' was unexpected" in str(
        [error.message for error in dask_cluster.iter_errors(deep)]
    )


def test_dask_cluster_has_the_shape_of_the_operators_own(dask_cluster: Any) -> None:
    """What KubeCluster would make: the same names, ports, selector, and way to find each other."""
    from dask_kubernetes.operator import make_cluster_spec
    from dask_kubernetes.operator.controller.controller import SCHEDULER_NAME_TEMPLATE

    data = load("k8s/dask-cluster.yaml")
    theirs = make_cluster_spec("uttermill", image="uttermill:latest", n_workers=4)
    assert {k: data[k] for k in ("apiVersion", "kind")} == {
        k: theirs[k] for k in ("apiVersion", "kind")
    }
    ours_service, their_service = (c["spec"]["scheduler"]["service"] for c in (data, theirs))
    assert {**ours_service, "ports": 0} == {**their_service, "ports": 0}

    def by_name(ports: Any) -> Any:
        return {port["name"]: port for port in ports}

    assert by_name(ours_service["ports"]) == by_name(their_service["ports"])
    for part in ("worker", "scheduler"):
        (ours,), (its,) = (c["spec"][part]["spec"]["containers"] for c in (data, theirs))
        assert ours["name"] == its["name"] == part
        if part == "worker":
            assert ours["args"][:2] == its["args"][1:3] == ["--name", "$(DASK_WORKER_NAME)"]
        else:
            assert by_name(ours["ports"]) == by_name(its["ports"])
    # The job reaches the scheduler by the name that the operator gives it, and on its port.
    words = load("k8s/run.yaml")["spec"]["template"]["spec"]["containers"][0]["args"]
    name = SCHEDULER_NAME_TEMPLATE.format(cluster_name=data["metadata"]["name"])
    assert f"cluster.address=tcp://{name}:8786" in words


def test_the_job_of_kubernetes_is_a_run(tmp_path: Path) -> None:
    (container,) = load("k8s/run.yaml")["spec"]["template"]["spec"]["containers"]
    args = command_parser().parse_args(container["args"])
    assert (args.command, args.settings) == ("run", "/data/settings.yaml")
    file = tmp_path / "settings.yaml"
    file.write_text("sources: [{kind: folder, path: /data/in, name: in}]\nout: /data/out\n")
    chosen = settings.read(str(file), [], None, args.sets).cluster
    assert chosen == ClusterSettings(kind="address", address="tcp://uttermill-scheduler:8786")
    claim = load("k8s/storage.yaml")["metadata"]["name"]
    for name, pod in pods():
        claims = [v["persistentVolumeClaim"]["claimName"] for v in pod.get("volumes", ())
                  if "persistentVolumeClaim" in v]  # fmt: skip
        assert claims == ([] if name == "scheduler" else [claim]), name


# Slurm


def slurm() -> ClusterSettings:
    return settings.read(str(INFRA / "slurm/settings.yaml"), [], None, []).cluster


def test_slurm_job() -> None:
    """What is handed to sbatch: resources, our Dask configuration, preload, one thread each."""
    chosen = slurm()
    kind: Any = cluster_class(chosen.class_name)
    of_cluster = {"scheduler_options", "security", "shared_temp_directory"}
    options = {name: value for name, value in chosen.options.items() if name not in of_cluster}
    script = kind.job_cls("tcp://10.0.0.1:8786", "w", **options).job_script()
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    for line in ("#SBATCH -p cpu", "#SBATCH -A speech", "#SBATCH --cpus-per-task=8",
                 "#SBATCH --mem=30G", "#SBATCH -t 08:00:00", "#SBATCH --hint=nomultithread",
                 "export DASK_CONFIG=/scratch/corpus/dask.yaml"):  # fmt: skip
        assert line in script.splitlines()
    (worker,) = (line for line in script.splitlines() if "dask_worker" in line)
    assert unknown(["dask", "worker", *worker.split()]) == []
    for words in ("--nthreads 1 ", "--nworkers 8 ", "--nanny", "--local-directory /tmp",
                  "--preload uttermill.tasks.preload",
                  "--dashboard-address 127.0.0.1:0"):  # fmt: skip
        assert words in worker
    assert chosen.workers == 4 * chosen.options["processes"]


SBATCH = """#!/bin/sh
# A cluster of one node: a job starts at once.
cp "$1" "{jobs}/$$.sh"
setsid bash "{jobs}/$$.sh" >"{jobs}/$$.log" 2>&1 </dev/null &
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
for job; do echo "$job" >>"{jobs}/cancelled"; kill -KILL -- "-$job" 2>/dev/null; done
exit 0
"""


@pytest.mark.cluster
def test_a_run_on_slurm(tmp_path: Path) -> None:
    """The settings of infra/slurm by the real SLURMCluster; what it submits to is ours."""
    jobs, commands = tmp_path / "jobs", tmp_path / "commands"
    jobs.mkdir()
    commands.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (commands / name).write_text(text.format(jobs=jobs))
        (commands / name).chmod(stat.S_IRWXU)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    site = Site(tmp_path, "", {"PATH": path}, history="none")
    corpus.make(site.source, 6)
    quiet = site.undisturbed(site.settings("quiet"))
    given = load("slurm/settings.yaml")["cluster"] | {"workers": 2}
    options = given["options"] | {
        "cores": 2, "processes": 2, "memory": "6GB", "local_directory": str(tmp_path / "local"),
        "job_script_prologue": [f"export DASK_CONFIG={INFRA / 'dask.yaml'}"],
        "scheduler_options": {**given["options"]["scheduler_options"], "host": "127.0.0.1"},
        "shared_temp_directory": str(tmp_path),
    }  # fmt: skip
    chosen = site.settings("out", cluster={**given, "options": options})
    with site.start("run", chosen, "--json") as run:
        seen: set[Place] = set()
        while run.process.poll() is None:
            seen |= (new := listeners.of(p.pid for p in run.alive()) - seen)
            assert not any(listeners.HANDSHAKE in listeners.heard(place) for place in new)
            time.sleep(0.2)
        assert len(seen) >= 5  # scheduler, nannies, workers, and Dask's HTTP servers
        ended = run.end()
        # Jobs are told to end as the last thing of all.
        assert run.none_left(60.0), run.alive()
    assert ended.code == 0, ended.stderr
    assert differences(site.home / "out", quiet) == []
    (script,) = jobs.glob("*.sh")
    assert "#SBATCH --hint=nomultithread" in script.read_text()
    assert f"--tls-key {tmp_path}/.dask-jobqueue.worker.key" in script.read_text()
    assert "gets no work" not in ended.stderr  # so they were preloaded, and see OUT
    assert len((jobs / "cancelled").read_text().split()) == 1
    assert list(tmp_path.glob(".dask-jobqueue*")) == []  # the key


RUN = """#!{python}
import pathlib, signal, sys, time
home = pathlib.Path({home!r})
def stop(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGTERM, stop)  # as uttermill.flows.cli does
(home / "arguments").write_text(" ".join(sys.argv[1:]))
try:
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)  # workers end
    (home / "ended").touch()
    sys.exit(130)
"""


def test_the_batch_script_waits_for_the_run_that_it_interrupts(tmp_path: Path) -> None:
    (tmp_path / "uttermill").write_text(RUN.format(python=sys.executable, home=str(tmp_path)))
    (tmp_path / "uttermill").chmod(stat.S_IRWXU)
    script = INFRA / "slurm/run.sbatch"
    assert "#SBATCH --signal=B:TERM@120" in script.read_text()
    with subprocess.Popen(
        ["bash", str(script), "settings.yaml", "--set", "a.b=c d"],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    ) as job:
        assert soon((tmp_path / "arguments").exists)
        job.send_signal(signal.SIGTERM)
        assert job.wait(120) == 130
    assert (tmp_path / "arguments").read_text() == "run settings.yaml --set a.b=c d"
    assert (tmp_path / "ended").exists()


# The image


def lint(dockerfile: Path) -> list[str]:
    done = subprocess.run(
        [str(SCRIPTS / "hadolint"), "--no-color", str(dockerfile)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return (done.stdout + done.stderr).splitlines()


def test_dockerfile_is_sound(tmp_path: Path) -> None:
    assert lint(INFRA / "Dockerfile") == []
    wrong = tmp_path / "Dockerfile"
    for old, new in (("WORKDIR", "WORKDER"), ("USER 1000", "USER root"), ("[", "")):
        wrong.write_text((INFRA / "Dockerfile").read_text().replace(old, new))
        assert lint(wrong), new


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> image.Image:
    """The image's steps on what the image copies; dependencies are those of this environment."""
    home = tmp_path_factory.mktemp("image")
    venv = home / "venv"
    make = [sys.executable, "-m", "venv", "--without-pip", str(venv)]
    subprocess.run(make, check=True)
    (site,) = (venv / "lib").glob("python*/site-packages")
    ours = [place for place in sys.path if Path(place).name == site.name]  # perhaps of two venvs
    (site / "dependencies.pth").write_text("\n".join(ours))
    (venv / "bin/pip").write_text(f'#!/bin/sh\nexec "{venv}/bin/python" -m pip "$@"\n')
    (venv / "bin/pip").chmod(stat.S_IRWXU)
    made = image.Image(ROOT, home / "root", venv)
    # The step as it stands; only that pip takes nothing from anywhere and builds with what is here.
    made.env |= {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0",
                 "PIP_IGNORE_INSTALLED": "1"}  # fmt: skip
    made.build(INFRA / "Dockerfile")
    return made


@pytest.mark.nightly
def test_the_image_holds_the_whole_program(built: image.Image) -> None:
    code = "from uttermill import flows, tasks; print(flows.__path__[0]); print(tasks.__path__[0])"
    folders = [Path(line) for line in built.run(["python", "-c", code]).split()]
    assert all(folder.is_relative_to(built.venv) for folder in folders)
    for folder in folders:
        here = {p.relative_to(ROOT) for p in (ROOT / folder.name).rglob("*") if p.is_file()}
        there = {p.relative_to(folder.parent) for p in folder.rglob("*") if p.is_file()}
        pages = (".md", ".png")  # for who reads the code
        program = {p for p in here if "__pycache__" not in p.parts and p.suffix not in pages}
        assert program - there == set()
    assert not (built.root / "src").exists()
    assert built.env["DASK_CONFIG"] == "/etc/uttermill/dask.yaml"
    told = (built.root / "etc/uttermill/dask.yaml").read_text()
    assert told == (INFRA / "dask.yaml").read_text()


@pytest.mark.nightly
def test_the_image_starts(built: image.Image) -> None:
    assert "COMMAND" in built.run([*built.entrypoint, *built.command])
    assert "faster_whisper" in built.run([*built.entrypoint, "plugins"])


@pytest.mark.nightly
def test_hashes_and_constraints_reach_pip(built: image.Image) -> None:
    hashed, install = (v for n, v in image.steps(INFRA / "Dockerfile") if n == "RUN" and "pip" in v)
    assert (
        hashed == "pip install --no-deps --require-hashes -r /etc/uttermill/requirements-hashed.txt"
    )
    assert "-c /etc/uttermill/constraints.txt" in install
    assert "--no-build-isolation" in install  # it would fetch what builds, by no hash
    assert (built.root / "etc/uttermill/constraints.txt").is_file()
    assert (built.root / "etc/uttermill/requirements-hashed.txt").is_file()


def test_the_base_is_a_digest_and_the_user_is_not_root() -> None:
    (_, default), start, *steps = image.steps(INFRA / "Dockerfile")
    assert re.fullmatch(r"BASE=python:3\.11-slim@sha256:[0-9a-f]{64}", default)
    assert start == ("FROM", "${BASE}")
    assert [value for name, value in steps if name == "USER"] == ["1000"]
    build = load("compose.yaml")["services"]["run"]["build"]
    assert build["args"] == {"BASE": f"${{UTTERMILL_BASE:-{default.removeprefix('BASE=')}}}"}


@pytest.mark.parametrize(
    ("imported", "kept"),
    [("uttermill.flows.cluster.settings.cluster_class('dask_jobqueue.SLURMCluster')", True),
     ("import dask_jobqueue", False)],
    ids=["ours", "control"],
)  # fmt: skip
@pytest.mark.nightly
def test_a_cluster_class_does_not_take_ctrl_c(imported: str, kept: bool) -> None:
    code = (
        "import signal; import uttermill.flows.cluster.settings; "
        "before = signal.getsignal(signal.SIGINT); "
        f"{imported}; print(signal.getsignal(signal.SIGINT) is before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(kept)


def test_the_nightly_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    """As the page has it, but for the program's path and the user, which are not here."""
    page = (INFRA / "nightly.md").read_text()
    (unit,) = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = shlex.split(line)
    asked = command_parser().parse_args(words[1:])
    assert (asked.command, asked.cron, asked.timezone) == ("serve", "0 2 * * *", "Europe/Berlin")
    assert words[0] == "/opt/uttermill/bin/uttermill"
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("there is no systemd-analyze on this machine")
    here = unit.replace(words[0], sys.executable).replace("User=uttermill", "User=root")
    file = tmp_path / "uttermill.service"
    file.write_text(here)
    told = subprocess.run([analyse, "verify", file], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    file.write_text(here.replace("RestartSec=60", "RestartSeconds=60"))  # a control
    told = subprocess.run([analyse, "verify", file], capture_output=True, text=True, check=False)
    assert "RestartSeconds" in told.stderr
