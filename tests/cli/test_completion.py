"""`uttermill completion bash`, as bash runs it: paths and words complete."""

import argparse
import json
import os
import pty
import select
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.test_commands import told
from tests.helpers import corpus
from uttermill.flows import cli, settings
from uttermill.flows.cli import command_line, completion
from uttermill.flows.run import run_folder
from uttermill.tasks import pipeline
from uttermill.tasks.publish.upkeep import verify

BASH = shutil.which("bash") or "bash"
#: Completes the last of the words, split as readline splits them.
ASK = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
compopt() {{ echo "compopt $*" >> options; }}
eval "$(complete -p uttermill | sed -E 's/.*-F ([^ ]+) .*/\\1/')"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("completion") / "uttermill.bash"
    place.write_text(completion.script("bash"))
    return place


def completed(script: Path, home: Path, *words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in ("uttermill", *words))
    asked = ASK.format(script=script, words=quoted)
    done = subprocess.run(
        [BASH, "--norc", "-c", asked], cwd=home, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_paths_complete(script: Path, tmp_path: Path) -> None:
    (tmp_path / "nightly.yaml").touch()
    (tmp_path / "corpus").mkdir()
    for words in (("run", "ni"), ("plan", "ni"), ("serve", "ni"), ("doctor", "ni")):
        assert completed(script, tmp_path, *words) == ["nightly.yaml"]
    several: tuple[tuple[str, ...], ...] = (
        ("status", "co"), ("ledger", "co"), ("list", "co"), ("verify", "co"), ("prune", "co"),
        ("run", "--source", "co"), ("run", "--out", "co"), ("serve", "--allow", "co"),
        ("run", "nightly.yaml", "--out", "co"), ("review", "import", "co"),
    )  # fmt: skip
    for each in several:
        assert completed(script, tmp_path, *each) == ["corpus"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("li",), ["list"]),
        (("list", "corpus", "--format", "we"), ["webdataset", "wenet", "wenet_raw"]),
        (("list", "corpus", "--split", "t"), ["train", "test"]),
        (("ledger", "corpus", "--reason", "filter.too_sh"), ["filter.too_short"]),
        (("ledger", "corpus", "--reason", "transcribe.empty_t"), ["transcribe.empty_text"]),
        (("plugins", "segm"), None),
        (("plugins", "filters.sil"), ["filters.silence"]),
        (("settings", "package.splits"), ["package.splits"]),
        (("run", "--set", "package.max_new"), ["package.max_new_failed_fraction="]),
        (("run", "--set", "filter.segmenter.u"), ["filter.segmenter.use="]),
        (
            ("what-if", "corpus", "--set", "filter.filters.silence.max_f"),
            ["filter.filters.silence.max_fraction="],
        ),
        (("run", "--set", "filter.segmenter.max_se"), ["filter.segmenter.max_seconds="]),
        (("models", "fetch", "whi"), ["whisper-base"]),
        (("completion", "ba"), ["bash"]),
    ],
)
def test_words_complete(
    script: Path, tmp_path: Path, words: tuple[str, ...], wanted: list[str] | None
) -> None:
    (tmp_path / "corpus").mkdir()
    found = completed(script, tmp_path, *words)
    assert found == wanted if wanted else found
    assert all(word.startswith(words[-1]) for word in found)


def test_splits_and_reasons_are_those_of_the_version(script: Path, tmp_path: Path) -> None:
    """A name such as `$(touch ran)` in a stranger's version ran when Tab was pressed."""
    hostile = ["$(touch ran)", "`touch ran`", "x;touch ran", "${x:=$(touch ran)}", "a b"]
    version = tmp_path / "corpus/datasets/v0001"
    version.mkdir(parents=True)
    facts = {
        "settings": {},
        "files": {},
        "packaged": [{"split": name} for name in ("train", "held_out", *hostile)],
        "reasons": {f"filter.{name}": {"items": 1} for name in ("too_long", *hostile)},
    }
    (version / "dataset.json").write_text(json.dumps(facts, indent=1))
    (version.parent / "latest").symlink_to("v0001")
    for place in ("corpus", "corpus/datasets/latest"):
        assert completed(script, tmp_path, "list", place, "--split", "") == ["held_out", "train"]
    reasons = completed(script, tmp_path, "ledger", "corpus", "--reason", "")
    assert reasons == ["filter.too_long"]
    assert not (tmp_path / "ran").exists()


def test_a_value_follows_a_setting_without_a_space(script: Path, tmp_path: Path) -> None:
    completed(script, tmp_path, "run", "--set", "package.se")
    assert "compopt -o nospace" in (tmp_path / "options").read_text()


def typed(script: Path, home: Path, line: str) -> str:
    """What an interactive bash makes of a line and a tab: words as its command would get them."""
    child, terminal = pty.fork()
    if not child:
        surroundings = {**os.environ, "HOME": str(home), "TERM": "dumb", "INPUTRC": "/dev/null"}
        os.chdir(home)
        os.execve(BASH, [BASH, "--norc", "--noprofile", "-i"], surroundings)
    try:
        shown = b""
        # The command writes its words, so that what the terminal echoes need not be understood.
        command = f"source '{script}'; uttermill() {{ printf '%s\\n' \"$@\" > typed; exit; }}\n"
        os.write(terminal, command.encode() + line.encode() + b"\t\n")
        while select.select([terminal], [], [], 20)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # it has exited
                break
    finally:
        os.close(terminal)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert (home / "typed").exists(), shown.decode(errors="replace")
    return (home / "typed").read_text().removesuffix("\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("uttermill run nigh", "run\nnightly.yaml"),
        ("uttermill run --source my", "run\n--source\nmy talks/"),
        ("uttermill run --source my\\ ta", "run\n--source\nmy talks/"),
        ("uttermill run 'our sett", "run\nour settings.yaml"),
        ("uttermill ledger ~/corp", "ledger\n{home}/corpus/"),
        ("uttermill ledger $HOME/corp", "ledger\n{home}/corpus/"),
        ("uttermill run --set package.see", "run\n--set\npackage.seed="),
    ],
)
def test_names_complete_at_a_terminal(script: Path, tmp_path: Path, line: str, words: str) -> None:
    """Names with spaces, in quotes, below `~` and variables: as bash completes them elsewhere."""
    for name in ("nightly.yaml", "our settings.yaml"):
        (tmp_path / name).touch()
    for name in ("corpus", "my talks"):
        (tmp_path / name).mkdir()
    assert typed(script, tmp_path, line) == words.format(home=tmp_path)


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_know_the_words_too(shell: str) -> None:
    text = completion.script(shell)
    assert "wenet_raw" in text
    assert "package.splits=" in text


# What commands say of a wrong place or argument: what is wrong there, and what to give.


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`out` of a run, and beside it `file`, `words`, `sound`, `empty`, `unpublished`, `away`,
    `swapped`, `damaged` and `other`."""
    home = tmp_path_factory.mktemp("usage")
    corpus.make(home / "in", 2)
    sets = ["transcribe.backend.use=fake", "shard.settle_seconds=0"]
    chosen = settings.read(None, [str(home / "in")], str(home / "out"), sets)
    with run_folder.record(home / "out", chosen) as run:
        _, stages = pipeline.run_here(chosen.job())
        run.finish({"stages": stages})
    shutil.copytree(home / "out", home / "unpublished")
    shutil.rmtree(home / "unpublished/datasets")
    (home / "file").write_text("no decision")
    (home / "words").write_text("just words")
    (home / "sound").write_bytes(b"\xff\xfe\x00")
    (home / "empty").mkdir()
    (home / "away").symlink_to("nowhere")
    (home / "swapped").mkdir()
    (home / "swapped/manifests").write_text("")
    for name, text in {"damaged": "{", "other": '{"sources": []}'}.items():
        (home / name / "runs/a").mkdir(parents=True)
        (home / name / "runs/a/settings.json").write_text(text)
    (home / "estimated/runs/a").mkdir(parents=True)
    (home / "estimated/runs/a/estimate-settings.json").write_text("{}")
    return home


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("status missing", "missing is not the OUT of a run: there is no such folder"),
        ("report file", "file is not the OUT of a run: it is a file, not a folder"),
        ("prune empty", "empty is not the OUT of a run: it holds no runs/"),
        ("ledger out/datasets/v0001", "it is one of its versions; give {home}/out"),
        ("status damaged", "runs/a/settings.json is damaged: it holds no JSON object; run again"),
        ("what-if other", "settings that this release does not take: sources needs at least 1"),
        ("status estimated", "estimated holds an estimate and no run yet; `uttermill run` with"),
        ("verify missing", "missing is not a dataset: there is no such folder"),
        ("list file", "file is not a dataset: it is a file, not a folder"),
        ("verify empty", "empty holds no dataset.json; give a folder like OUT/datasets/latest"),
        ("list unpublished", "unpublished holds no dataset version yet; `uttermill run` publishes"),
        ("explore unpublished", "unpublished holds no dataset version yet; `uttermill run`"),
        ("review import missing out", "missing cannot be read: No such file or directory"),
        ("review import out missing", "missing cannot be read: No such file or directory"),
        ("review import file out", "file, line 1: this is not JSON"),
        (
            "review import sound out",
            "sound cannot be read: it is not text in UTF-8 or UTF-16 (in Excel",
        ),
        ("review import empty --out out", "empty cannot be read: Is a directory; it must be a"),
        ("test-set words --kind texts --out x", "has nothing to compare: give a list of texts of"),
        ("run --source in --out file", "OUT {home}/file is a file; name a folder"),
        ("run --source in --out away", "{home}/away is a link to nowhere, and no folder is there"),
        ("run --source in --out away/out", "{home}/away is a link to nowhere, and no folder"),
        ("run --source in --out swapped", "manifests is a file, where OUT has a folder; remove it"),
        ("plan --source in --out swapped", "manifests is a file, where OUT has a folder; remove"),
        ("review export missing", "missing is not the OUT of a run: there is no such folder"),
        ("what-if out --set out=empty", "what-if is about one OUT: --set cannot change out"),
        ("models list speakers", "give a NAME, such as speakers, to `uttermill models fetch`"),
        ("plugins duration", "a plug-in is named as in filters.duration"),
        ("plugins nonsense", "a plug-in is named as in filters.silence"),
    ],
)
def test_a_wrong_argument(
    home: Path,
    words: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(home)
    assert said.format(home=home) in told(capsys, *words.split(), code=2)["error"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--source", "in", "--out", ""], "out must not be empty"),
        (["plan", "--source", "", "--out", "new"], "the path of a source must not be empty"),
        (["status", ""], "the folder's name is empty; for the current one, give ."),
        (["list", ""], "the folder's name is empty; for the current one, give ."),
    ],
)
def test_an_empty_name_is_not_the_current_folder(
    home: Path,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As `--out "$OUT"` gives where that is not set: a run wrote into the current folder."""
    monkeypatch.chdir(home)
    assert said in told(capsys, *words, code=2)["error"]
    assert not (home / "runs").exists()


@pytest.mark.parametrize("command", ["status", "verify", "prune"])
def test_an_out_whose_path_is_no_text(
    home: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`verify` called it damaged, and others ended in a traceback."""
    odd = home / os.fsdecode(b"b\xfccher")
    if not odd.exists():
        shutil.copytree(home / "out", odd)
    said = told(capsys, command, str(odd), code=2)["error"]
    assert said.endswith(r"b\xfccher is not valid UTF-8; rename the folder")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("explore out --port 65536", "argument --port: give a port up to 65535"),
        ("explore out --port http", "argument --port: give a port up to 65535"),
        ("estimate x.yaml --fraction some", "argument --fraction: give a fraction above 0"),
        ("estimate x.yaml --least some", "argument --least: give 1 or more"),
    ],
)
def test_a_wrong_number(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words.split())
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_a_run_goes_on_where_the_settings_of_the_last_one_are_damaged(home: Path) -> None:
    assert run_folder.known_settings(home / "damaged") is None


@pytest.mark.nightly
def test_a_report_that_cannot_be_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It named a temporary file."""
    page = run_folder.newest(home / "out") / "report.html"
    page.mkdir()
    refused = told(capsys, "report", str(home / "out"), code=1)["error"]
    assert refused.endswith(f"{page} cannot be written: Is a directory")


def test_a_version_that_is_removed_meanwhile_is_not_called_damaged(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(home / "out", home / "pruned")
    version = home / "pruned/datasets/v0001"
    whole = verify.verify

    def removed(dataset: Path) -> list[str]:
        shutil.rmtree(version / "wenet")
        faults = whole(dataset)
        (version / "dataset.json").unlink()
        return faults

    monkeypatch.setattr(verify, "verify", removed)
    said = told(capsys, "verify", str(version), code=1)["error"]
    assert said == f"{version} was removed while it was verified"


def test_every_argument_is_explained() -> None:
    top = command_line.parser()
    (commands,) = (a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    silent = {
        (name, action.metavar or action.dest)
        for name, command in commands.choices.items()
        for action in command._actions
        if not action.help
    }
    assert silent == set()
