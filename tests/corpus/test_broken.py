"""Broken files are refused as soon as they are known, by one rule, and named in all results."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.flows import settings
from uttermill.flows.cli.show import tables
from uttermill.flows.server.artifacts import failure, markdown
from uttermill.tasks.accounting import broken
from uttermill.tasks.base.errors import NothingLeft, TooManyFailed
from uttermill.tasks.insight import report
from uttermill.tasks.insight.report import page as making
from uttermill.tasks.stages import stage


def break_some(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"x{number:02d}.wav").write_text("<html>not found</html>")


def test_too_many_are_refused_before_anything_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in")
    break_some(tmp_path / "in", 13)
    ran: list[str] = []
    monkeypatch.setattr(stage, "run", lambda name, *given, **more: ran.append(name))
    with pytest.raises(TooManyFailed) as caught:
        corpus.run(corpus.job(tmp_path))
    assert ran == [], "nothing was cut, converted or heard"
    said = str(caught.value)
    assert said.startswith("13 of 23 recordings failed, more than package.max_failed_fraction")
    assert f"{tmp_path}/in/x00.wav (shard.unreadable" in said
    assert said.count("shard.unreadable") == broken.FIRST
    assert said.endswith("and 3 more")


def test_a_spared_source_does_not_count(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in")
    corpus.make(tmp_path / "other", 10)
    break_some(tmp_path / "in", 5)
    sources: list[dict[str, Any]] = [
        {"kind": "folder", "path": str(tmp_path / "in"), "name": "c", "expect_broken": True},
        {"kind": "folder", "path": str(tmp_path / "other"), "name": "d"},
    ]
    published, _ = corpus.run(corpus.job(tmp_path, sources=sources))
    assert published.summary["recordings"] == {"in": 25, "failed": 5}
    sources[0]["expect_broken"] = False
    with pytest.raises(TooManyFailed, match="5 of 25"):
        corpus.run(corpus.job(tmp_path, sources=sources, out=tmp_path / "again"))


def test_the_fraction_means_the_same_on_the_command_line(tmp_path: Path) -> None:
    """A folder given as --source is spared, unless the command line gives a fraction."""
    corpus.make(tmp_path / "in")
    break_some(tmp_path / "in", 3)

    def run(out: str, *sets: str) -> Any:
        fake = ["transcribe.backend.use=fake", "shard.settle_seconds=0", *sets]
        chosen = settings.read(None, [str(tmp_path / "in")], str(tmp_path / out), fake)
        return corpus.run(chosen.job())[0]

    assert run("a").summary["recordings"]["failed"] == 3
    with pytest.raises(TooManyFailed):
        run("b", "package.max_failed_fraction=0.1")
    assert run("c", "package.max_failed_fraction=0.5").summary["recordings"]["failed"] == 3


def test_the_first_ten_are_found_in_a_ledger(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in")
    break_some(tmp_path / "in", 12)
    version = corpus.run(corpus.job(tmp_path, package={"max_failed_fraction": 1}))[0].path
    found = broken.of_ledger(pq.read_table(version / "ledger.parquet", columns=broken.COLUMNS))
    assert [Path(each.source_path).name for each in found] == [f"x{n:02d}.wav" for n in range(10)]
    assert {each.reason for each in found} == {"shard.unreadable"}


FILES = [{"source_path": "/in/a [1].wav", "reason": "shard.unreadable", "detail": "no <decoder>"}]


def test_run_names_them() -> None:
    assert [*tables.broken(FILES, 3)] == [
        "Broken: /in/a [1].wav  shard.unreadable: no <decoder>",
        "2 more failed: uttermill ledger OUT --items names all.",
    ]


def test_the_artifact_names_them() -> None:
    result = {
        "dataset": "/o/datasets/v0001", "new": {"recordings": 0}, "new_version": True,
        "wall_seconds": 1.0, "reasons": {},
        "seconds": {"in": 1.0, "packaged": 1.0}, "recordings": {"in": 9, "failed": 2},
        "utterances": {"packaged": 1}, "broken": FILES,
    }  # fmt: skip
    text = markdown("/o", 1.0, (), result)
    assert "**2 broken files.**" in text
    assert "- `/in/a [1].wav` shard.unreadable: no \\<decoder\\>" in text
    assert "and 1 more" in text


def test_retry_is_advised_only_where_it_can_help() -> None:
    text = failure("failed", TooManyFailed("2 of 3 recordings failed", ["/in/x.wav (empty)"]))
    assert "/in/x.wav" in text
    assert "A retry alone ends in the same way." in text
    text = failure("failed", NothingLeft("nothing is left; repair", notes=["/in/x.wav (empty)"]))
    assert "a retry alone ends in the same way" in text
    assert "- /in/x.wav (empty)" in text, "as the terminal has it"
    assert "Loosen" not in text, "the remedy is the sentence's"


@pytest.mark.nightly
def test_the_report_names_them(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    break_some(tmp_path / "in", 12)
    job = corpus.job(tmp_path, package={"max_failed_fraction": 1})
    version = corpus.run(job)[0]
    page = report.build(job, "r", version.path).decode()
    assert "12 recordings failed" in page
    assert page.split('class="broken"')[1].count("shard.unreadable") >= broken.FIRST
    assert f"{tmp_path}/in/x09.wav" in page
    assert f"{tmp_path}/in/x11.wav" in page
    assert "uttermill explore OUT" in page
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "FAILED", broken.FIRST)
        page = report.build(job, "r", version.path).decode()
    table = page.split('class="broken"')[1].split("</details>")[0]
    assert table.count("shard.unreadable") == broken.FIRST
    assert f"{tmp_path}/in/x11.wav" not in table
    assert f"The first {broken.FIRST};" in table


def test_without_recogniser_and_texts_the_remedy_is_named(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    for sidecar in (tmp_path / "in").glob("*.txt"):
        sidecar.unlink()
    heard = {"backend": {"use": "none"}, "verdicts": ({"use": "empty_text"},)}
    with pytest.raises(NothingLeft, match="own texts pass empty_text: name") as caught:
        corpus.run(corpus.job(tmp_path, transcribe=heard))
    named, lifted = "name these", "or set transcribe.verdicts: [] to package clips without text"
    assert str(caught.value).index(named) < str(caught.value).index(lifted)
    short = {"filters": ({"use": "duration", "max": 0.1},)}
    with pytest.raises(NothingLeft, match=r"loosen what dropped them: filter\.filters"):
        corpus.run(corpus.job(tmp_path, transcribe=heard, filter=short))
    published, _ = corpus.run(corpus.job(tmp_path, transcribe={**heard, "verdicts": ()}))
    assert published.summary["utterances"]["packaged"] == 2
