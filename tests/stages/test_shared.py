"""Recordings that two sources list: the same source twice is refused, shared files are named."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_show import said
from tests.helpers import corpus
from uttermill.flows import checks, settings
from uttermill.flows.cli.show import runs as shown
from uttermill.flows.run import plans
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings.job import Job

FAKE = {"backend": {"use": "fake"}}


def folder(path: Path, name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "folder", "path": str(path), "name": name, **more}


def listed(path: Path, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"kind": "jsonl", "path": str(path), "name": name}


def job(tmp: Path, *sources: dict[str, Any], **changes: Any) -> Job:
    return corpus.job(tmp, sources=sources, **changes)


def found(tmp: Path, *sources: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(s.first, s.second, s.recordings) for s in corpus.surveyed(job(tmp, *sources)).shared]


def chosen(tmp: Path, *sources: dict[str, Any]) -> settings.PrepareSettings:
    data = {"sources": sources, "out": str(tmp / "out"), "transcribe": FAKE,
            "shard": {"settle_seconds": 0}}  # fmt: skip
    return settings.parse(data)


def test_the_same_source_twice_is_refused(tmp_path: Path) -> None:
    """All of its clips were packaged twice."""
    corpus.make(tmp_path / "in", 2)
    (tmp_path / "link").symlink_to(tmp_path / "in")
    again = (tmp_path / "in", tmp_path / "in/", tmp_path / "link")
    for path in again:
        two = folder(tmp_path / "in", "a"), folder(path, "b", language="de", expect_broken=True)
        with pytest.raises(ConfigError) as caught:
            checks.check(chosen(tmp_path, *two))
        assert str(caught.value) == (
            f"the sources 'a' and 'b' are the same, {tmp_path}/in: each of its recordings would be "
            "packaged twice; name it once"
        )
    sets = ["transcribe.backend.use=fake"]
    twice = settings.read(None, [str(tmp_path / "in")] * 2, str(tmp_path / "out"), sets)
    with pytest.raises(ConfigError, match="'in' and 'in-2' are the same"):
        checks.check(twice)
    # Another column of a list, or another kind of source, may be other recordings.
    rows = [{"a": "in/r00.wav", "b": "in/r01.wav"}]
    first = listed(tmp_path / "list.jsonl", "a", rows) | {"columns": {"audio": "a"}}
    second = {**first, "name": "b", "columns": {"audio": "b"}}
    checks.check(chosen(tmp_path, first, second))
    assert found(tmp_path, first, second) == []


def test_recordings_in_two_sources_are_found(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    corpus.make(tmp_path / "in/deep", 2)
    corpus.make(tmp_path / "other", 3)  # copies: other files
    whole = folder(tmp_path / "in", "a")
    assert found(tmp_path, whole, folder(tmp_path / "other", "b")) == []
    assert found(tmp_path, whole) == []
    assert found(tmp_path, whole, folder(tmp_path / "in/deep", "b")) == [("a", "b", 2)]
    assert found(tmp_path, folder(tmp_path / "in/deep", "b"), whole) == [("b", "a", 2)]
    os.link(tmp_path / "in/r00.wav", tmp_path / "other/linked.wav")
    (tmp_path / "other/soft.wav").symlink_to(tmp_path / "in/r01.wav")
    linked = folder(tmp_path / "other", "b", follow_links=True)
    assert found(tmp_path, whole, linked) == [("a", "b", 2)]
    gone = listed(tmp_path / "gone.jsonl", "c", [{"wav": "gone.wav", "key": "k", "txt": "t"}])
    again = listed(tmp_path / "again.jsonl", "d", [{"wav": "gone.wav", "key": "k", "txt": "t"}])
    assert found(tmp_path, gone, again) == []  # files that are not there share nothing


def test_segments_are_shared_only_if_they_are_equal(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)

    def cut(name: str, *spans: tuple[float, float], file: str = "r01.wav") -> dict[str, Any]:
        rows = [{"wav": f"in/{file}", "txt": "t", "key": f"{a}", "start": a, "end": b}
                for a, b in spans]  # fmt: skip
        return listed(tmp_path / f"{name}.jsonl", name, rows)

    train, dev = cut("train", (0, 0.2)), cut("dev", (0.2, 0.4), (0.4, 0.5))
    assert found(tmp_path, train, dev) == []
    assert found(tmp_path, train, dev, cut("more", (0.4, 0.5))) == [("dev", "more", 1)]
    assert found(tmp_path, train, cut("other", (0, 0.2), file="r00.wav")) == []
    assert found(tmp_path, train, folder(tmp_path / "in", "all")) == [("train", "all", 1)]
    assert found(tmp_path, folder(tmp_path / "in", "all"), train) == [("all", "train", 1)]


@pytest.mark.full
@pytest.mark.usefixtures("one_process")
def test_plan_and_run_name_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus.make(tmp_path / "in/deep", 2)
    two = folder(tmp_path / "in", "a"), folder(tmp_path / "in/deep", "b")
    says = (
        f"2 recordings of the source 'b' are in the source 'a', too, such as {tmp_path}/in/deep/"
        "r00.wav: what is new is processed once (filter.duplicate), unless they state other texts, "
        "speakers, languages or spans; the filter duplicate keeps one copy of each clip"
    )
    plan = plans.make(chosen(tmp_path, *two))
    assert [each["says"] for each in plan["shared"]] == [says]
    assert f"{says}." in " ".join(said(shown.plan, plan).split())
    assert "shared" not in plans.make(chosen(tmp_path, two[0]))
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, _ = corpus.run(job(tmp_path, *two))
    assert caplog.messages == [says]
    assert published.summary["utterances"]["packaged"] == 2
    caplog.clear()
    keep = {**corpus.filters(), "duplicate_files": "keep"}
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, _ = corpus.run(job(tmp_path, *two, filter=keep))
    assert ": their audio is packaged twice; take them out" in caplog.messages[0]
    assert published.summary["utterances"]["packaged"] == 4
    caplog.clear()
    once = corpus.filters({"use": "duplicate"})
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, _ = corpus.run(job(tmp_path, *two, filter=once))
    assert caplog.messages[0].endswith(": the filter duplicate keeps one copy of each clip")
    assert published.summary["utterances"]["packaged"] == 2
