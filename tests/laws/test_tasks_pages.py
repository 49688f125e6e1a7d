"""Every command of the pages by task in flows/README.md, on made speech.

`run` goes through the whole line in this process, with the `fake` recogniser; `estimate` and
`serve` are read by the command line's parser only.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from tests import pages
from tests.helpers import corpus, tiers
from uttermill.flows import cli
from uttermill.flows.cli.command_line import parser as command_parser
from uttermill.flows.demo import corpus as demo
from uttermill.flows.demo.corpus import Line, speak
from uttermill.flows.run import launch, run_folder
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks import pipeline
from uttermill.tasks.storage import versions

PAGE = (pages.ROOT / "flows" / "README.md").read_text()
SECTIONS = dict(
    re.findall(
        r"^### ([^\n]+)\n(.*?)(?=^##)",
        PAGE.split("## Tasks, in ten lines each")[1],
        re.MULTILINE | re.DOTALL,
    )
)
TALK = "The quick brown fox jumps over the lazy dog. It does not mind at all. " * 5


def steps(section: str) -> Iterator[tuple[str, str]]:
    """(file, its text) of each here-document, ("", command) of each command."""
    (block,) = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    assert len(block.splitlines()) <= 10, "ten lines each"
    lines = iter(block.splitlines())
    for line in lines:
        if made := re.match(r"cat > (\S+) <<END", line):
            text = []
            for inner in lines:
                if inner == "END":
                    break
                text.append(inner)
            yield made[1], "\n".join(text) + "\n"
        else:
            yield "", line


def run_here(settings: PrepareSettings, name: str = "prepare", **more: Any) -> dict[str, Any]:
    """What `launch.run` does, without Prefect and workers."""
    with run_folder.record(Path(settings.out), settings) as run:
        published, stages = pipeline.run_here(settings.job())
        run.finish({"stages": stages})
    return {"dataset": str(published.path)}


def talk(folder: Path, count: int = 2) -> None:
    """Some seconds of speech in each file."""
    folder.mkdir(parents=True)
    said = speak([Line(TALK, "en-us", 150 + 10 * n) for n in range(count)])
    for number, samples in enumerate(said):
        sf.write(folder / f"talk{number}.wav", samples, demo.RATE)


def kaldi(folder: Path) -> None:
    folder.mkdir(parents=True)
    corpus.make(folder.parent / "wavs", 3)
    wavs = [f"u{n} {folder.absolute().parent}/wavs/r{n:02d}.wav" for n in range(3)]
    (folder / "wav.scp").write_text("\n".join(wavs) + "\n")
    (folder / "text").write_text("".join(f"u{n} some words {n}\n" for n in range(3)))


def clips(folder: Path) -> None:
    """A folder for each of two speakers, with a text beside each recording."""
    for speaker in ("anna", "ben"):
        talk(folder / speaker)
        for path in sorted((folder / speaker).glob("*.wav")):
            path.with_suffix(".txt").write_text(TALK)


MADE: dict[str, Callable[[], None]] = {
    "Ten hours of podcasts to a TTS corpus": lambda: talk(Path("podcasts")),
    "Mandarin ASR": lambda: talk(Path("recordings")),
    "Clips with texts to a list for a voice's trainer": lambda: clips(Path("clips")),
    "Voice conversion": lambda: talk(Path("speaker0"), 1),
    "A nightly corpus": lambda: talk(Path("inbox"), 1),
    "A colleague's Kaldi folder to WeNet": lambda: kaldi(Path("data/train")),
}


@pytest.mark.full
@pytest.mark.parametrize("title", tiers.few(sorted(MADE), *sorted(MADE)[::2]))
def test_each_line_of_a_page(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    MADE[title]()
    monkeypatch.setattr(launch, "run", run_here)
    monkeypatch.setattr("uttermill.flows.cli.show.runs.run", lambda result: ())
    outs = set()
    for file, text in steps(SECTIONS[title]):
        if file:
            Path(file).write_text(text)
            continue
        command, _, target = text.partition("#")[0].partition(">")
        words = shlex.split(command)
        assert words[0] == "uttermill", text
        asked = command_parser().parse_args(words[1:])
        if asked.command in ("estimate", "serve"):
            continue
        if asked.command in ("run", "plan"):
            heard = "none" if "none" in Path(asked.settings).read_text() else "fake"
            words += ["--set", f"transcribe.backend.use={heard}", "--set", "shard.settle_seconds=0"]
        capsys.readouterr()
        assert cli.main(words[1:]) == 0, (text, capsys.readouterr().err)
        if target:
            Path(target.strip()).write_text(capsys.readouterr().out)
            outs.add(target.strip())
    for name in outs:
        assert Path(name).read_text(), name
    (version,) = {versions.newest(path) for path in tmp_path.iterdir() if versions.newest(path)}
    assert version is not None
    assert versions.described(version)["utterances"]["packaged"] > 0


def test_every_page_has_its_recordings() -> None:
    assert set(SECTIONS) == set(MADE)
