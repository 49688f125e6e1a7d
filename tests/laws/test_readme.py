"""What the pages show is true: the filter in them is complete and works."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import pages
from tests.helpers import corpus
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.formats import FRAMES_PER_SECOND, metadata_csv
from uttermill.tasks.insight import report
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.recording import yaml_text

ROOT = Path(__file__).parents[2]
PLUGINS = (ROOT / "tasks" / "plugins" / "README.md").read_text()
FILTERS = (ROOT / "tasks" / "filters" / "README.md").read_text()
OUT = (ROOT / "tasks" / "publish" / "README.md").read_text()
FORMATS = (ROOT / "tasks" / "formats" / "README.md").read_text()


def test_yaml_of_pages_can_be_read() -> None:
    blocks = [
        (path.relative_to(ROOT), block)
        for path in sorted(ROOT.rglob("*.md"))
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
        for block in re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)
    ]
    assert len(blocks) > 10
    for path, block in blocks:
        yaml_text.load(block, str(path))


def test_what_readers_drop() -> None:
    """The page of formats has every upper limit that a format declares, and the key of --json."""
    words = " ".join(FORMATS.split())
    (told,) = re.findall(r"Some readers silently drop clips.*?`reader_drops` in `--json`", words)
    limits = []
    every = [plugins.FORMATS.load(use).READER for use in shelves.names("formats")]
    for reader in (*every, *(one.limits for one in metadata_csv.PROFILES.values())):
        for bound in reader.bounds if reader else ():
            if bound.side == "max" and bound.measure != "characters_per_frame":
                frames = FRAMES_PER_SECOND if bound.measure == "frames" else 1
                limits.append(f"{bound.limit / frames:g}")
    assert len(set(limits)) == 7
    assert set(re.findall(r"above ([\d.]*\d)", told)) == set(limits)


def test_the_size_of_a_report() -> None:
    assert f"one file below {report.BYTES // 1_000_000} MB" in OUT


def test_every_script_of_a_page_is_run() -> None:
    """Here, by `tests/sources/test_sources.py` on a messy folder, and by
    `tests/e2e/test_from_python.py` from a wheel."""
    scripts = [page for page in pages.pages() for _ in re.findall("```python", page.read_text())]
    assert {page.relative_to(ROOT).as_posix() for page in scripts} == {
        "flows/python.md",
        "tasks/filters/README.md",
        "tasks/plugins/README.md",
        "tasks/sources/README.md",
    }
    assert len(scripts) == 8


def test_the_filter_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, _ = re.findall(r"```python\n(.*?)```", PLUGINS, re.DOTALL)
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "crest.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    corpus.make(tmp_path / "in", 4)
    try:
        chosen = corpus.filters({"use": "mine.crest", "max": 100})
        published, _ = corpus.run(corpus.job(tmp_path, filter=chosen))
        rows = corpus.utterances(published.path)
        assert all(5 < row["crest"] < 25 for row in rows), [row["crest"] for row in rows]
        strict = corpus.filters({"use": "mine.crest", "max": 5})
        job = corpus.job(tmp_path, filter=strict, package={"max_failed_fraction": 1.0})
        with pytest.raises(Exception, match="nothing is left to package"):
            corpus.run(job)
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
            del sys.modules[name]


@pytest.mark.nightly
def test_the_annotations_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", FILTERS, re.DOTALL)
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "bursts.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    corpus.make(tmp_path / "in", 4)
    publish = {"publish": ["bursts"], "formats": ["webdataset"]}

    def run(**limits: Any) -> list[dict[str, Any]]:
        chosen = corpus.filters({"use": "mypackage.bursts", **limits})
        published, _ = corpus.run(corpus.job(tmp_path, filter=chosen, package=publish))
        assert verify(published.path) == []
        return corpus.utterances(published.path)

    try:
        rows = run()
        shares = sorted(row["bursts_burst"] for row in rows)
        assert 0 < shares[0] < shares[-1]
        for row in rows:
            seconds = sum(event["end"] - event["start"] for event in row["bursts"])
            assert row["bursts_burst"] == pytest.approx(seconds / (row["end"] - row["start"]))
            assert row["bursts_mood"] == "lively"
        assert len(run(max_share={"burst": (shares[0] + shares[1]) / 2})) == 1
        assert [row["bursts"] for row in run(factor=10.0, allowed_mood=["calm"])] == [[]] * 4
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "mypackage"]:
            del sys.modules[name]


def test_the_source_and_the_format_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, source, format_ = re.findall(r"```python\n(.*?)```", PLUGINS, re.DOTALL)
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "names.py").write_text(source)
    (package / "raw.py").write_text(format_)
    monkeypatch.syspath_prepend(str(tmp_path))
    files = sorted(path for path in corpus.make(tmp_path / "in", 4).iterdir() if path.is_file())
    lines = [f"{number}\t{path}" for number, path in enumerate(files)]
    names = tmp_path / "names.tsv"
    names.write_text("\n".join([*lines, "no tab", f"gone\t{tmp_path}/gone.wav"]))
    chosen = {"kind": "mypackage.names", "path": str(names), "name": "mine"}
    wanted = {"formats": ["mypackage.raw"], "max_failed_fraction": 1.0}
    job = corpus.job(tmp_path, sources=[chosen], package=wanted)
    try:
        published, _ = corpus.run(job)
        rows = corpus.utterances(published.path)
        home = published.path / "mypackage.raw" / "train"
        listed = [line.split("\t") for line in (home / "texts.tsv").read_text().splitlines()]
        assert len(rows) == len(files)
        assert {text for _, text in listed} == {row["text"] for row in rows}
        for path, _ in listed:
            [row] = [row for row in rows if row["id"] == Path(path).stem]
            assert (published.path / path).stat().st_size == 2 * row["num_samples"]
        assert verify(published.path) == []
        (published.path / listed[0][0]).write_bytes(b"other")
        assert verify(published.path) != []
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "mypackage"]:
            del sys.modules[name]
