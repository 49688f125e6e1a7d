"""First steps: `init`, `plugins SHELF.NAME`, `--version`, `completion`."""

import io
import json
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.test_commands import told
from tests.cli.test_plan_command import Terminal
from tests.helpers import corpus
from uttermill.flows import checks, cli, settings
from uttermill.flows.cli import init, setting_listing
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves


@pytest.mark.parametrize("purpose", ["asr", "tts", "vc"])
@pytest.mark.parametrize("languages", [(), ("zh",), ("en", "de")])
def test_init_writes_settings_that_load(
    tmp_path: Path, purpose: str, languages: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.make(tmp_path / "in: a", 1)
    file = tmp_path / "mine.yaml"
    flags = [word for code in languages for word in ("--language", code)]
    words = ["init", str(file), "--for", purpose, "--source", str(tmp_path / "in: a")]
    made = told(capsys, *words, "--out", str(tmp_path / "out"), *flags)
    assert made == {"settings": str(file), "purpose": purpose, "languages": [*languages]}
    read = settings.read(str(file), [], None, [])
    job = checks.check_wishes(read)
    assert job.resample.rate == {"asr": 16000, "tts": 24000, "vc": 40000}[purpose]
    assert read.sources[0].path == str(tmp_path / "in: a")
    forced = read.sources[0].options.get("language")
    assert forced == (languages[0] if len(languages) == 1 else None)
    text = file.read_text()
    assert text.count("#") > 8
    if purpose != "vc" and languages:
        assert f"allowed: [{', '.join(languages)}]" in text
    assert cli.main(words) == 2
    assert "is there already" in capsys.readouterr().err


def test_init_names_every_kind_of_source() -> None:
    """It left out tables."""
    written = init.text("asr", [], "in", "out", "a.yaml")
    (line,) = [line for line in written.splitlines() if "kind: folder" in line]
    kinds = line.partition("# or ")[2].split(", ")
    assert sorted([*kinds, "folder"]) == shelves.names("sources")


def test_what_init_comments_out_loads_without_the_mark(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 1)
    file = tmp_path / "mine.yaml"
    flags = ["--source", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    assert cli.main(["init", str(file), "--for", "tts", *flags]) == 0
    text, count = re.subn(r"(?m)^( *)# (- \{|\w+: \{)", r"\1\2", file.read_text())
    assert count == 4
    file.write_text(text)
    read = settings.read(str(file), [], None, [])
    assert read.speakers.use == "segments"
    assert {"sample_rate", "music", "dnsmos"} <= {plugin.use for plugin in read.filter.filters}


def test_init_refuses_a_path_that_yaml_cannot_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    odd = os.fsdecode(b"b\xfccher")
    for flags in (["--source", odd, "--out", "out"], ["--source", "in", "--out", odd]):
        assert cli.main(["init", str(file), "--for", "asr", *flags]) == 2
        assert "b\\xfccher is not valid UTF-8; rename the folder" in capsys.readouterr().err
        assert not file.exists()


@pytest.mark.parametrize(
    "name", ['"q" #x: %y', "a\tb", "\U0001f3a7", "a\x7fb", "M\xc3\x85", "a\u2028b"]
)
def test_init_takes_any_name_in_utf_8(tmp_path: Path, name: str) -> None:
    file = tmp_path / "mine.yaml"
    flags = ["--for", "asr", "--source", name, "--out", f"{name}-out"]
    assert cli.main(["init", str(file), *flags]) == 0
    read = settings.read(str(file), [], None, [])
    assert Path(read.sources[0].path).name == name
    assert Path(read.out).name == f"{name}-out"


def test_init_for_voices_runs(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    file = tmp_path / "vc.yaml"
    words = ["--for", "vc", "--source", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    assert cli.main(["init", str(file), *words]) == 0
    chosen = settings.read(str(file), [], None, ["shard.settle_seconds=0"])
    published, _ = corpus.run(chosen.job())
    assert published.summary["utterances"]["packaged"] > 0


def test_init_asks_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typed = "song\ntts\nEnglish\nen, de\n\n/data/talk\n\n"
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", asked := Terminal())
    assert cli.main(["init"]) == 0
    said = asked.getvalue()
    assert said.count("What is it for") == said.count("Languages that are") == 2, "asked again"
    assert "'song' is not one of asr, tts, vc.\n" in said
    assert "'English': give a code of ISO 639-1, such as en.\n" in said
    assert "Folder of recordings? there is no default; type an answer.\n" in said
    read = settings.read("uttermill.yaml", [], None, [])
    assert (read.resample.rate, read.sources[0].path) == (24000, "/data/talk")
    assert read.out == str(tmp_path / "prepared")


def test_init_ends_where_no_answer_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-D took the default, and went on to the next question."""
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    monkeypatch.setattr(sys, "stderr", said := Terminal())
    assert cli.main(["init", str(tmp_path / "x.yaml")]) == 2
    assert said.getvalue().endswith("\nuttermill: no answer; give --for\n")


def test_init_without_a_terminal_names_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert cli.main(["init", str(tmp_path / "x.yaml"), "--for", "asr"]) == 2
    assert "give --source" in capsys.readouterr().err
    assert not (tmp_path / "x.yaml").exists()


def test_one_plugin_with_all_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, "plugins", "filters.silence")
    (entry,) = answer["filters"].values()
    by_name = {setting["setting"]: setting for setting in entry["settings"]}
    assert by_name["threshold_db"] == {
        "setting": "threshold_db", "unit": "dBFS", "default": -65.0, "required": False,
        "kind": "recipe", "meaning": "Frames of lower RMS are silent, dBFS.",
    }  # fmt: skip
    assert (by_name["max_longest"]["unit"], by_name["max_longest"]["kind"]) == ("s", "threshold")
    assert [column["column"] for column in entry["columns"]] == [
        "silence_fraction", "silence_leading", "silence_trailing", "silence_longest",
    ]  # fmt: skip
    assert cli.main(["plugins", "filters.silence"]) == 0
    said = capsys.readouterr().out
    assert "max_fraction" in said
    assert "Largest silent share kept" in said


def test_a_whole_shelf_and_every_shelf(capsys: pytest.CaptureFixture[str]) -> None:
    for shelf in shelves.SHELVES:
        answer = told(capsys, "plugins", shelf)
        assert list(answer[shelf]) == shelves.names(shelf)
        for entry in answer[shelf].values():
            assert all(s["meaning"] for s in entry["settings"])


@pytest.mark.parametrize(
    ("which", "sentence"),
    [("filter", "no kind of plug-in 'filter'; known:"), ("filters.silent", "no filter 'silent'")],
)
def test_an_unknown_plugin_is_told_what_there_is(
    which: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plugins", which]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "silence" in said or "filters" in said


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code in (0, None)
    assert (
        capsys.readouterr().out + capsys.readouterr().err == f"uttermill {version('uttermill')}\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--json"],
        ["nonsense", "--json"],
        ["status", "--json"],
        ["run", "--json", "--sett", "a.b=1"],
        ["run", "x.yaml", "--json", "--set"],
        ["estimate", "x.yaml", "--fraction", "2", "--json"],
    ],
)
def test_wrong_usage_is_an_object_too(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    (line,) = printed.out.splitlines()
    answer = json.loads(line)
    assert answer["exit"] == 2
    assert printed.err.startswith("usage: uttermill")
    assert printed.err.endswith(f"error: {answer['error']}\n")
    assert ("unrecognized" in printed.err) == ("COMMAND --help` lists" in printed.err)
    with pytest.raises(SystemExit):
        cli.main([word for word in words if word != "--json"])
    assert capsys.readouterr().out == ""


def test_every_setting_that_limits_a_column_with_a_unit_has_one() -> None:
    lacking = []
    for name in shelves.names("filters"):
        units = plugins.columns("filters", name)
        for setting in setting_listing.plugins_named(f"filters.{name}")["filters"][name][
            "settings"
        ]:
            side, _, part = setting["setting"].partition("_")
            column = f"{name}_{part}" if part else name
            if side in ("min", "max") and units.get(column, ("1",))[0] not in ("1", ""):
                lacking += [] if setting["unit"] else [f"{name}.{setting['setting']}"]
    assert lacking == []
