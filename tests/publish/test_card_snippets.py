"""The snippets of a data card run as printed, in the version's folder, and find every clip."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import braceexpand
import pytest
import yaml

from tests.helpers import corpus, tiers
from uttermill.tasks import plugins
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin

FORMATS = (
    "wenet", "wenet_raw", "webdataset", "lhotse_shar", "nemo", "kaldi", "emilia", "hf_parquet",
    "speechbrain", "metadata_csv", "chat_jsonl", "mds", "litdata", "lance",
)  # fmt: skip

LISTED = ("wenet", "wenet_raw", "metadata_csv", "chat_jsonl")
PYTHON = [name for name in FORMATS if name not in (*LISTED, "nemo")]


@pytest.fixture(scope="module", params=["flac"])
def version(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp(f"card-{request.param}")
    corpus.make(home / "in", 8)
    having = ("webdataset", "lhotse_shar", "nemo", "hf_parquet", "mds", "litdata", "lance")
    formats = [{"use": f, **({"audio": request.param} if f in having else {})} for f in FORMATS]
    package = {"formats": formats, "splits": {"dev": 0.2}, "tar_hours": 2.0 / 3600}
    return corpus.run(corpus.job(home, package=package))[0].path


def snippet(version: Path, name: str) -> tuple[str, str]:
    """(language, code) as the card has it."""
    part = (version / "README.md").read_text().split(f"### {name.replace('_', '_')}\n")[1]
    language, code = re.findall(r"```(bash|python|yaml)\n(.*?)```", part.split("\n### ")[0], re.S)[
        0
    ]
    return language, code


def train(version: Path) -> list[str]:
    rows = corpus.utterances(version)
    return sorted(row["text"] for row in rows if row["split"] == "train")


@pytest.mark.full
@pytest.mark.parametrize("name", tiers.few(PYTHON, "webdataset"))
def test_python_finds_every_clip_of_train(version: Path, name: str, tmp_path: Path) -> None:
    language, code = snippet(version, name)
    assert language == "python"
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    if name in ("speechbrain", *NUMBERED):
        home = numbered(tmp_path, name) if name in NUMBERED else stand_in(tmp_path)
        environment["PYTHONPATH"] = os.pathsep.join([str(home), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=version, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [line.split(")" if name == "lhotse_shar" else " ", 2) for line in
            done.stdout.splitlines()]  # fmt: skip
    assert sorted(parts[-1].strip() for parts in told) == train(version)
    assert verify(version) == [], "it left nothing behind"


def stand_in(home: Path) -> Path:
    """SpeechBrain, which brings all of torchaudio along, is read for real by `tests.readers`; here
    its class does what its documentation says: every text is formatted with the replacements."""
    module = home / "speechbrain" / "dataio" / "dataset.py"
    module.parent.mkdir(parents=True)
    module.write_text("""\
import json


class DynamicItemDataset(list):
    @classmethod
    def from_json(cls, json_path, replacements={}):
        with open(json_path, encoding="utf-8") as file:
            entries = json.load(file)
        for key, entry in entries.items():
            texts = {k: v.format_map(replacements) for k, v in entry.items() if type(v) is str}
            entries[key] = {**entry, **texts, "id": key}
        return cls(entries.values())

    def set_output_keys(self, keys):
        self[:] = [{key: entry[key] for key in keys} for entry in self]
""")
    return home


#: What a library that brings PyTorch along calls its class by, and the folder that it reads.
NUMBERED = {
    "mds": ("streaming", "def StreamingDataset(local, split, batch_size):", "local, split"),
    "litdata": ("litdata", "def StreamingDataset(folder):", "folder"),
}


def numbered(home: Path, name: str) -> Path:
    """`tests.readers` reads by the library itself; here, the strict reader of our tests."""
    module, head, folder = NUMBERED[name]
    (home / f"{module}.py").write_text(f"""\
from pathlib import Path
from tests.helpers import random_access

{head}
    return [*random_access.{name}(Path({folder}))]
""")
    return home


@pytest.mark.full
@pytest.mark.parametrize("name", tiers.few(LISTED, LISTED[0]))
def test_a_shell_makes_the_list(version: Path, name: str, tmp_path: Path) -> None:
    language, code = snippet(version, name)
    assert language == "bash"
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PATH": f"{scripts}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", code], cwd=version, env=environment, check=True, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    lines = Path(done.stdout.strip()).read_text().splitlines()
    assert lines
    assert all(f"{version}/{name}/train/" in line for line in lines)


@pytest.mark.full
def test_nemo_names_all_tars_and_no_other(version: Path) -> None:
    """As NeMo's `expand_sharded_filepaths` reads it."""
    language, code = snippet(version, "nemo")
    assert language == "yaml"
    (asked,) = yaml.safe_load(code).values()
    pattern = asked["tarred_audio_filepaths"].replace("_OP_", "{").replace("_CL_", "}")
    named = {version / path for path in braceexpand.braceexpand(pattern)}
    assert named == {*(version / "nemo/train").glob("*.tar")}
    assert len(named) > 1
    assert (version / asked["manifest_filepath"]).is_file()
    assert (asked["sample_rate"], asked["is_tarred"]) == (16000, True)


def test_every_format_has_one() -> None:
    from uttermill.tasks.base import shelves

    for name in shelves.names("formats"):
        module, settings = plugins.FORMATS.resolve(Plugin(use=name))
        assert module.snippet(settings), name
