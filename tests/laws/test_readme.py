"""What the pages show is true: the filter in them is complete and works."""

import re
import sys
from collections.abc import Iterator
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
from uttermill.tasks.settings.base import FORMS

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


@pytest.fixture
def mypackage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of one's own, empty, beside four recordings; nobody finds it after the test."""
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage/__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    corpus.make(tmp_path / "in", 4)
    yield tmp_path / "mypackage"
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypackage"]:
        del sys.modules[name]


def test_the_filter_of_the_readme(tmp_path: Path, mypackage: Path) -> None:
    code, _, _ = re.findall(r"```python\n(.*?)```", PLUGINS, re.DOTALL)
    (mypackage / "crest.py").write_text(code)
    chosen = corpus.filters({"use": "mypackage.crest", "max": 100})
    published, _ = corpus.run(corpus.job(tmp_path, filter=chosen))
    rows = corpus.utterances(published.path)
    assert all(5 < row["crest"] < 25 for row in rows), [row["crest"] for row in rows]
    strict = corpus.filters({"use": "mypackage.crest", "max": 5})
    job = corpus.job(tmp_path, filter=strict, package={"max_failed_fraction": 1.0})
    with pytest.raises(Exception, match="nothing is left to package"):
        corpus.run(job)


@pytest.mark.nightly
def test_the_annotations_of_the_readme(tmp_path: Path, mypackage: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", FILTERS, re.DOTALL)
    (mypackage / "bursts.py").write_text(code)
    publish = {"publish": ["bursts"], "formats": ["webdataset"]}

    def run(**limits: Any) -> list[dict[str, Any]]:
        chosen = corpus.filters({"use": "mypackage.bursts", **limits})
        published, _ = corpus.run(corpus.job(tmp_path, filter=chosen, package=publish))
        assert verify(published.path) == []
        return corpus.utterances(published.path)

    rows = run()
    shares = sorted(row["bursts_burst"] for row in rows)
    assert 0 < shares[0] < shares[-1]
    for row in rows:
        seconds = sum(event["end"] - event["start"] for event in row["bursts"])
        assert row["bursts_burst"] == pytest.approx(seconds / (row["end"] - row["start"]))
        assert row["bursts_mood"] == "lively"
    assert len(run(max_share={"burst": (shares[0] + shares[1]) / 2})) == 1
    assert [row["bursts"] for row in run(factor=10.0, allowed_mood=["calm"])] == [[]] * 4


def test_the_source_and_the_format_of_the_readme(tmp_path: Path, mypackage: Path) -> None:
    _, source, format_ = re.findall(r"```python\n(.*?)```", PLUGINS, re.DOTALL)
    (mypackage / "names.py").write_text(source)
    (mypackage / "raw.py").write_text(format_)
    files = sorted(path for path in (tmp_path / "in").iterdir() if path.is_file())
    lines = [f"{number}\t{path}" for number, path in enumerate(files)]
    names = tmp_path / "names.tsv"
    names.write_text("\n".join([*lines, "no tab", f"gone\t{tmp_path}/gone.wav"]))
    chosen = {"kind": "mypackage.names", "path": str(names), "name": "mine"}
    wanted = {"formats": ["mypackage.raw"], "max_failed_fraction": 1.0}
    job = corpus.job(tmp_path, sources=[chosen], package=wanted)
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


# Pages that describe the code say what the code says, and their links lead somewhere.

PAGES = pages.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_made_parts_are_fresh(page: Path) -> None:
    text = page.read_text()
    assert text == pages.renewed(text), "stale: run `python -m tests.pages`"


def test_the_form_shows_the_settings_of_now() -> None:
    assert FORMS.read_text() == pages.forms_text(), "stale: run `python -m tests.pages`"


def test_control_a_stale_part_is_seen() -> None:
    text = "<!-- made from the code: shelf levels -->\nold\n<!-- end -->"
    assert "loudness_lufs" in pages.renewed(text)


def test_every_shelf_and_room_has_its_page() -> None:
    for shelf in shelves.SHELVES:
        assert (
            f"made from the code: shelf {shelf}"
            in (pages.ROOT / "tasks" / shelf / "README.md").read_text()
        )
    assert "made from the code: modules flows" in (pages.ROOT / "flows/README.md").read_text()


def test_the_first_page_is_short() -> None:
    assert len((pages.ROOT / "README.md").read_text().splitlines()) < 200


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


#: Modules that a page tells its reader to make, or that are the reader's.
TO_BE_MADE = {"tasks/filters/crest.py", "tasks.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_modules_that_a_page_names_exist(page: Path) -> None:
    """A bare name may lie in any folder of the room that the page is about."""
    text = re.sub(r"<!-- made from the code.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    named = set(re.findall(r"`([\w./]+\.(?:py|js|sh|sbatch))`", text)) - TO_BE_MADE
    homes = (page.parent, *(pages.ROOT / top for top in ("", "tasks", "flows", "tests")))
    assert [name for name in sorted(named) if not any(lies_in(name, home) for home in homes)] == []


def lies_in(name: str, home: Path) -> bool:
    if "/" in name or home == pages.ROOT:
        return (home / name).is_file()
    return any(home.rglob(name))


def test_control_a_module_that_is_gone_is_seen() -> None:
    assert not lies_in("gone.py", pages.ROOT / "flows")
    assert not lies_in("cli/tables.py", pages.ROOT / "flows"), "a path is taken as it stands"
    assert lies_in("tables.py", pages.ROOT / "flows")


def test_every_folder_of_tests_is_on_the_map() -> None:
    home = pages.ROOT / "tests"
    text = (home / "README.md").read_text()
    folders = {path.parent.relative_to(home) for path in home.rglob("test_*.py")}
    assert [str(folder) for folder in sorted(folders) if f"`{folder}/`" not in text] == []
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)`", text)
    assert [name for name in named if not (home / name).exists()] == []
