"""What an OUT names is not imported: only what a person names on this command line, or trusts."""

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import tampered
from tests.helpers.tiers import nightly
from uttermill.flows import cli, settings
from uttermill.flows.cluster import worker
from uttermill.flows.explore import corpus as explored
from uttermill.flows.run import plans
from uttermill.tasks import plugins
from uttermill.tasks.base import environment
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.plugins import trusted
from uttermill.tasks.plugins.trusted import Untrusted

FILTER, FORMAT, SOURCE = "strangers.loud", "strangers.lines", "strangers.found"
MODULES = {
    "loud": "from uttermill.tasks.filters.peak import *",
    "lines": "from uttermill.tasks.formats.kaldi import *",
    "found": "from uttermill.tasks.sources.folder import *",
}


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Plug-ins that could be imported, in a process that trusts none; which of them were."""
    monkeypatch.setenv(environment.PLUGINS_VARIABLE, "")
    home, marks = tmp_path / "path/strangers", tmp_path / "marks"
    home.mkdir(parents=True)
    marks.mkdir()
    (home / "__init__.py").write_text("")
    for name, code in MODULES.items():
        mark = f"import pathlib; pathlib.Path({str(marks / name)!r}).touch()\n"
        (home / f"{name}.py").write_text(f"{mark}{code}\n")
    monkeypatch.syspath_prepend(str(home.parent))
    for name in [name for name in sys.modules if name.split(".")[0] == "strangers"]:
        monkeypatch.delitem(sys.modules, name)
    for function in (plugins.Shelf.load, plugins.loading.module):
        function.cache_clear()
    plugins.loading._checked.clear()
    return lambda: sorted(path.name for path in marks.iterdir())


def named(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Other settings in each run of OUT."""
    for path in out.glob("runs/*/settings.json"):
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))


def with_filter(data: dict[str, Any]) -> None:
    data["filter"]["filters"].insert(0, {"use": FILTER})


PLACES: dict[str, Callable[[dict[str, Any]], object]] = {
    FILTER: with_filter,
    FORMAT: lambda data: data["package"]["formats"].append({"use": FORMAT}),
    SOURCE: lambda data: data["sources"][0].update(kind=SOURCE),
}
#: Those that need the settings of OUT; others answer without.
REFUSED = [["status"], ["what-if"], ["prune"], ["prune", "--keep-recipes"], ["report"]]
OTHERS = [["ledger"], ["ledger", "--items"], ["verify"], ["verify", "--deep"], ["list"]]


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    return cli.main(words), capsys.readouterr().err


@pytest.mark.parametrize("use", [FILTER, *map(nightly, (FORMAT, SOURCE))])
def test_settings_in_out_import_nothing(
    out: Path, use: str, imported: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    named(out, PLACES[use])
    for command, *words in REFUSED:
        code, text = ended(capsys, command, str(out), *words)
        assert code == 2, text
        assert f"settings.json names the plug-in {use}, which is not loaded" in text
        assert "--trust-plugins loads it, or a settings file of your own that names it" in text
    for command, *words in OTHERS:
        assert ended(capsys, command, str(out), *words) == (0, "")
    assert imported() == []


@pytest.mark.nightly
def test_a_name_in_the_settings_of_a_plug_in_imports_nothing(
    out: Path, imported: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A segmenter names a recogniser."""
    segmenter = {"use": "aligned", "backend": {"use": FILTER}}
    named(out, lambda data: data["filter"].update(segmenter=segmenter))
    for command, *words in REFUSED:
        code, text = ended(capsys, command, str(out), *words)
        assert code in (1, 2), text
        assert f"this OUT names the plug-in {FILTER}, which is not loaded" in text
    assert imported() == []


def test_the_explorer_goes_on_without_limits(
    out: Path, tmp_path: Path, imported: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    named(out, with_filter)
    corpus = explored.Corpus(out, tmp_path)
    try:
        assert corpus.job() is None
        assert corpus.rows(f"SELECT count(*) AS n FROM {corpus.items().name}")[0]["n"]
    finally:
        corpus.close()
    assert f"names the plug-in {FILTER}, which is not loaded" in caplog.text
    assert imported() == []


def test_a_published_format_imports_nothing(
    out: Path, imported: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    def change(known: dict[str, Any]) -> None:
        known["settings"]["package"]["formats"].append({"use": FORMAT})
        known["formats"][FORMAT] = known["formats"]["kaldi"]

    tampered.described(out, change)
    for words in (["verify", str(out)], ["list", str(out), "--format", FORMAT]):
        code, text = ended(capsys, *words)
        assert code == 2, (words, text)
        assert f"formats: this OUT names the plug-in {FORMAT}" in text
    for words in (["list", str(out)], ["prune", str(out), "--keep-recipes"]):
        assert ended(capsys, *words) == (0, "")
    assert imported() == []


def test_trust_loads_what_out_names_and_ends_with_the_command(
    out: Path, imported: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The control of the tests above."""
    named(out, with_filter)
    assert ended(capsys, "status", str(out), "--trust-plugins")[0] == 0
    assert imported() == ["loud"]
    assert environment.own_plugins() == set()
    assert ended(capsys, "status", str(out))[0] == 2


def test_own_settings_may_name_any(
    out: Path, imported: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["--set", f"filter.filters+={{use: {FILTER}}}", "--set", f"package.formats+={FORMAT}"]
    file = str(out.parent / "settings.yaml")
    code, text = ended(capsys, "plan", file, "--out", str(out), *own)
    assert code == 0, text
    assert imported() == ["lines", "loud"]


def test_a_plan_goes_on_without_what_an_earlier_run_named(
    out: Path, imported: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether a stranger's run, or one of the user's own that they have thought better of."""
    named(out, with_filter)
    file = str(out.parent / "settings.yaml")
    code, text = ended(capsys, "plan", file, "--out", str(out))
    assert code == 0, text
    assert f"WARNING {next(out.glob('runs/*'))}/settings.json names the plug-in {FILTER}" in text
    assert imported() == []


def test_a_run_goes_on_without_a_published_format_of_ones_own(
    out: Path, imported: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tampered.run(out, f"filter.filters+={{use: {FILTER}}}", f"package.formats+={FORMAT}")
    assert imported() == ["lines", "loud"]
    assert FORMAT in json.loads((out / "datasets/v0002/dataset.json").read_text())["formats"]
    monkeypatch.setenv(environment.PLUGINS_VARIABLE, "")
    for function in (plugins.Shelf.load, plugins.loading.module):
        function.cache_clear()
    plugins.loading._checked.clear()
    tampered.run(out)
    assert FORMAT not in json.loads((out / "datasets/v0003/dataset.json").read_text())["formats"]


def test_names_in_settings() -> None:
    given: JsonObject = {
        "sources": [{"kind": "a.source", "path": "in.d", "columns": {"text": "b.c"}}],
        "enhance": "an.enhancer",
        "filter": {
            "segmenter": {"use": "aligned", "backend": "an.asr"},
            "filters": ["peak", "a.b"],
        },
        "package": {
            "only": {"speaker": ["not.one", "nor.this"]},
            "formats": ["wenet", {"use": "f.g"}],
        },
    }
    names = {*trusted._dotted(given)}
    assert names >= {"a.source", "an.enhancer", "an.asr", "a.b", "f.g"}
    assert not names & {"not.one", "nor.this", "peak", "aligned"}


@pytest.mark.full
def test_a_call_carries_what_is_trusted_to_a_worker_elsewhere(
    imported: Callable[[], list[str]], tmp_path: Path
) -> None:
    """A worker that is no child of this process, and does not have its variables."""
    path = os.pathsep.join([str(tmp_path / "path"), *filter(None, sys.path)])
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": path}

    def called() -> str:
        call = pickle.dumps(worker.trusting(plugins.module))
        code = (
            "import pickle, sys; print(pickle.load(sys.stdin.buffer)('filters', 'strangers.loud'))"
        )
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], input=call, env=bare, capture_output=True
        )
        return (done.stdout + done.stderr).decode()

    assert "Untrusted" in called()
    assert imported() == []
    trusted.allow([FILTER])
    assert "module 'strangers.loud'" in called()
    assert imported() == ["loud"]


def test_code_gives_settings_as_a_person_does(
    out: Path, imported: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    """In code, what computes takes settings that its caller made."""
    from uttermill.flows.run import execute

    file = str(out.parent / "settings.yaml")
    chosen = settings.read(file, [], str(out), ["history=none"])
    data = chosen.model_dump(mode="json")
    with_filter(data)
    given = settings.parse(data)
    assert imported() == []
    with caplog.at_level(logging.ERROR), pytest.raises(Untrusted):
        plans.make(given)
    with execute.opened(given):
        pass
    assert imported() == ["loud"]
