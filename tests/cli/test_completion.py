"""`uttermill completion bash`, as bash runs it: paths and words complete."""

from __future__ import annotations

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

from uttermill.flows.cli import completion

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
    version = tmp_path / "corpus/datasets/v0001"
    version.mkdir(parents=True)
    facts = {
        "settings": {},
        "files": {},
        "packaged": [{"split": "train"}, {"split": "held_out"}],
        "reasons": {"filter.too_long": {"items": 1}},
    }
    (version / "dataset.json").write_text(json.dumps(facts, indent=1))
    (version.parent / "latest").symlink_to("v0001")
    for place in ("corpus", "corpus/datasets/latest"):
        assert completed(script, tmp_path, "list", place, "--split", "") == ["held_out", "train"]
    reasons = completed(script, tmp_path, "ledger", "corpus", "--reason", "")
    assert reasons == ["filter.too_long"]


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
