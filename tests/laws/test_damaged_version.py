"""A run after which files of the newest version were damaged, wherever the damage lies: a tar is
made again; for a table, on which the next version builds, one sentence says what to do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, tiers
from uttermill.flows.cli import queries
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.insight import comparing
from uttermill.tasks.publish.published import load
from uttermill.tasks.publish.upkeep.verify import verify

PACKAGE = {
    "tar_hours": 2.0 / 3600,
    "max_removed_fraction": 1.0,
    "max_failed_fraction": 1.0,
}


def spots(path: Path) -> dict[str, int]:
    """A byte of every kind of place in a Parquet file."""
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(0).column(0)
        footer = file.metadata.serialized_size
    size = path.stat().st_size
    page = min(p for p in (column.dictionary_page_offset, column.data_page_offset) if p)
    return {
        "magic in front": 0,
        "page header": page,
        "data": page + column.total_compressed_size - 1,
        "footer": size - 8 - footer,
        "middle of the footer": size - 8 - footer // 2,
        "length of the footer": size - 8,
        "magic at the end": size - 1,
    }


@contextmanager
def damaged(where: str, *files: Path) -> Iterator[None]:
    places = [(path, spots(path)[where]) for path in files]
    for path, at in places:
        corpus.flip(path, at)
    try:
        yield
    finally:
        for path, at in places:
            corpus.flip(path, at)


class Grown:
    """An OUT with one version, whose sources have a recording more; and what the next one is."""

    def __init__(self, home: Path, **package: Any) -> None:
        self.home, self.package = home, {**PACKAGE, **package}
        corpus.make(home / "in", 16)
        (home / "in" / "copy.wav").write_bytes((home / "in" / "r01.wav").read_bytes())
        self.one = self.run()
        corpus.add(home / "in", 20)
        self.expected = corpus.content(self.run())

    @property
    def out(self) -> Path:
        return self.home / "out"

    def run(self) -> Path:
        chosen = corpus.filters({"use": "duplicate"}, min=0.8)
        return corpus.run(corpus.job(self.home, package=self.package, filter=chosen))[0].path

    def back(self) -> None:
        """As after the first version."""
        shutil.rmtree(self.out / "datasets" / "v0002", ignore_errors=True)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return Grown(tmp_path_factory.mktemp("damaged"))


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return Grown(tmp_path_factory.mktemp("split"), splits={"test": 0.3})


WHERE = ("magic in front", "page header", "data", "footer", "middle of the footer",
         "length of the footer", "magic at the end")  # fmt: skip
SOME = ("data", "footer")


@pytest.mark.full
def test_a_damaged_tar_is_made_again(grown: Grown, caplog: pytest.LogCaptureFixture) -> None:
    grown.back()
    victim = sorted(grown.one.rglob("*.tar"))[0]
    corpus.flip(victim, 700)
    two = grown.run()
    corpus.flip(victim, 700)
    assert corpus.content(two) == grown.expected
    assert f"{victim} is damaged or gone" in caplog.text
    assert verify(two) == []


@pytest.mark.parametrize("places", [SOME, tiers.nightly(WHERE)], ids=["some", "all"])
@pytest.mark.parametrize("name", ["ledger.parquet", "utterances.parquet", "splits.parquet"])
@pytest.mark.nightly
def test_damage_that_cannot_be_made_good(
    grown: Grown, split: Grown, name: str, places: tuple[str, ...]
) -> None:
    """The ledger knows what has ever left, splits what was ever assigned, and the table of
    utterances what was published. After all refusals OUT is as it was."""
    out = split if name == "splits.parquet" else grown
    out.back()
    victim = out.one / name
    sentence = rf"^{name} of v0001 is not the file that was published"
    for where in places:
        with damaged(where, victim), pytest.raises(RunError, match=sentence):
            out.run()
    assert corpus.content(out.run()) == out.expected


@pytest.mark.full
@pytest.mark.parametrize("text", [b"", b'{"files": {', b"\xff\xfe{}"])
def test_a_damaged_description(grown: Grown, text: bytes) -> None:
    """A sentence for the commands that read it, as for the tables."""
    grown.back()
    place = grown.one / "dataset.json"
    whole = place.read_bytes()
    place.write_bytes(text)
    sentence = r"^dataset\.json of v0001 is not the file that was published"
    for read in (grown.run, partial(queries.data_list, grown.one, None)):
        with pytest.raises(RunError, match=sentence):
            read()
    place.write_bytes(whole)
    assert corpus.content(grown.run()) == grown.expected


def test_a_damaged_table_is_not_compared_or_given_to_programs(grown: Grown) -> None:
    grown.back()
    table = grown.one / "utterances.parquet"
    dataset = load(grown.one)
    readers = (
        lambda: dataset.utterances,
        lambda: comparing.compare(dataset, dataset),
        lambda: comparing.since(grown.one, grown.one, None),
    )
    for read in readers:
        with damaged("data", table), pytest.raises(RunError, match="is not the file that was"):
            read()
        read()
    with pytest.raises(ConfigError, match=r"holds no dataset\.json"):
        load(table)


def test_a_version_that_is_removed_is_followed_by_another(grown: Grown) -> None:
    """As the sentence says."""
    grown.back()
    aside = grown.home / "aside"
    grown.one.rename(aside)
    again = grown.run()
    assert again == grown.one
    assert verify(again) == []
    shutil.rmtree(again)
    aside.rename(grown.one)
