"""An OUT of which somebody has deleted, cut or swapped files, or that changes while it is read."""

import errno
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import corpus, tampered
from tests.helpers.tiers import full, nightly
from uttermill.flows import cli
from uttermill.flows.cli import queries
from uttermill.flows.explore.corpus import Corpus
from uttermill.flows.run import ledger_items, report, run_folder
from uttermill.tasks import storage
from uttermill.tasks.accounting import metrics
from uttermill.tasks.base.errors import ConfigError, RunError, UnsafePlace
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.storage import tables, versions
from uttermill.tasks.storage.local import Local

RESTORE = "restore the file, or remove {}, and the next run builds on the version before"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an OUT with two versions; never changed."""
    out = tampered.make(tmp_path_factory.mktemp("damaged"))
    tampered.run(out, "package.formats=[wenet,kaldi]")
    return out.parent


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> str:
    capsys.readouterr()
    assert cli.main([*words]) == code
    return capsys.readouterr().err


def reading(out: Path) -> list[list[str]]:
    """Commands that read the newest version."""
    plan = ["plan", str(out.parent / "settings.yaml"), "--set", f"out={out}"]
    limit = ["what-if", str(out), "--set", "filter.filters=[{use: duration, min: 0.7}]"]
    return [["status", str(out)], plan, limit, ["ledger", str(out)], ["ledger", str(out), "--csv"]]


@pytest.mark.full
@pytest.mark.parametrize("name", ["", nightly("v0099")], ids=["gone", "of no version"])
def test_without_latest_out_stands_for_its_newest_version(
    out: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    latest = out / "datasets/latest"
    latest.unlink()
    if name:
        latest.symlink_to(name)
    assert cli.main(["verify", str(out)]) == 0
    capsys.readouterr()
    assert cli.main(["list", str(out)]) == 0
    assert str(out / "datasets/v0002/wenet") in capsys.readouterr().out
    tampered.run(out, "package.formats=[wenet,kaldi]")
    assert latest.resolve() == out / "datasets/v0002"


@pytest.mark.parametrize("name", ["wenet/train", "README.md"])
def test_a_link_to_nothing_in_a_version_is_named(out: Path, name: str) -> None:
    version = out / "datasets/v0002"
    (version / name).rename(out.parent / "moved")
    (version / name).symlink_to(out.parent / "moved")
    assert versions.lost(version) == []
    (out.parent / "moved").rename(out.parent / "away")
    with pytest.raises(UnsafePlace, match=f"{version / name} is a link, .*: remove it"):
        versions.lost(version)


def test_a_version_without_its_description(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands on OUT name it and the remedy; none says that there is no version."""
    version = out / "datasets/v0002"
    (version / "dataset.json").unlink()
    for words in (*reading(out), ["prune", str(out)], ["verify", str(out)], ["list", str(out)]):
        sentence = f"{version} holds no dataset.json, so no version can build on it: "
        assert sentence + RESTORE.format(version) in told(capsys, *words, code=2)
    shutil.rmtree(version)
    tampered.run(out, "package.formats=[wenet,kaldi]")
    assert verify(version) == []


@pytest.mark.parametrize("text", [b"{}", nightly(b"[]"), nightly(b"7")])
def test_a_description_that_is_none(
    out: Path, text: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    version = out / "datasets/v0002"
    (version / "dataset.json").write_bytes(text)
    for words in (*reading(out), ["prune", str(out)], ["list", str(out)]):
        sentence = told(capsys, *words, code=1)
        assert "dataset.json of v0002 is not the file that was published" in sentence
        assert RESTORE.format(version) in sentence


def gone(path: Path) -> None:
    path.unlink()


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path) -> None:
    corpus.flip(path, path.stat().st_size // 2)


def swapped(path: Path) -> None:
    shutil.copy(path.parent.parent / "v0001" / path.name, path)


WAYS = [full(gone), nightly(halved), flipped]


@pytest.mark.parametrize("damage", WAYS)
def test_a_damaged_table_of_utterances(
    out: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    version = out / "datasets/v0002"
    damage(version / "utterances.parquet")
    for words in reading(out)[:3]:
        sentence = told(capsys, *words, code=1)
        assert "utterances.parquet of v0002 is not the file that was published" in sentence
        assert RESTORE.format(version) in sentence


@pytest.mark.parametrize("damage", [*map(nightly, (gone, halved)), full(flipped), swapped])
def test_a_damaged_ledger_is_not_counted(
    out: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.add(out.parent / "in", 3)
    source = f"sources=[{{kind: folder, path: {out.parent / 'in'}, name: c}}]"
    tampered.run(out, "package.formats=[wenet,kaldi]", source)
    version = out / "datasets/v0003"
    (out / "datasets/v0001").rename(out / "aside")
    (out / "datasets/v0002").rename(out / "datasets/v0001")
    damage(version / "ledger.parquet")
    for words in reading(out)[3:]:
        sentence = told(capsys, *words, code=1)
        assert "ledger.parquet of v0003 is not the file that was published" in sentence
        assert RESTORE.format(version) in sentence


@pytest.mark.parametrize("damage", WAYS)
@pytest.mark.parametrize("use", ["wenet", "kaldi"])
def test_a_damaged_list_is_not_printed(
    out: Path, use: str, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A trainer would not notice that clips are missing."""
    name = {"wenet": "wenet/train/data.list", "kaldi": "kaldi/train/wav.scp"}[use]
    damage(out / "datasets/v0002" / name)
    other = "kaldi" if use == "wenet" else "wenet"
    assert cli.main(["list", str(out), "--format", other]) == 0
    sentence = told(capsys, "list", str(out), "--format", use, code=1)
    assert f"{name} of v0002 is not the file that was published" in sentence or (
        f"v0002 lacks {name}, or it is cut short; the next run makes a lost file" in sentence
    )


def test_a_damaged_summary(out: Path) -> None:
    folder = run_folder.newest(out)
    job = run_folder.settings_of(out).job()
    halved(folder / run_folder.SUMMARY)
    with pytest.raises(ConfigError, match="is damaged: it holds no JSON object; run again"):
        report.page(job, folder)
    (folder / run_folder.SUMMARY).write_text("[]")
    assert queries.status(out)["dataset"]


@pytest.mark.nightly
def test_damaged_metrics_cost_only_what_they_tell(out: Path) -> None:
    """The times of a plan, and the section on workers."""
    folder = run_folder.newest(out)
    (folder / metrics.NAME).write_bytes(b"PAR1 and nothing more")
    corpus.add(out.parent / "in", 4)
    words = ["plan", str(out.parent / "settings.yaml"), "--set", f"out={out}"]
    source = f"sources=[{{kind: folder, path: {out.parent / 'in'}, name: c}}]"
    assert cli.main([*words, "--set", source]) == 0
    report.make(run_folder.settings_of(out).job(), folder)
    assert (folder / report.NAME).is_file()


@pytest.mark.parametrize("text", [b"", b"dataset,source_path,reason\nc\n", b"a\n\xff,b,c\n"])
def test_a_damaged_list_of_skipped_files(
    out: Path, text: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    place = run_folder.newest(out) / ledger_items.NAME
    place.write_bytes(text)
    sentence = told(capsys, "ledger", str(out), "--items", code=2)
    assert f"{place} is damaged; the next run writes one anew" in sentence


def test_decisions_are_imported_whole_or_not_at_all(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ids of unknown clips come from the ledger, which is read before anything is appended."""
    file = out.parent / "decisions.jsonl"
    file.write_text('{"id": "x", "decision": "drop"}\n')
    halved(out / "datasets/v0002/ledger.parquet")
    sentence = told(capsys, "review", "import", str(file), str(out), code=1)
    assert "ledger.parquet of v0002 is not the file that was published" in sentence
    assert not (out / "reviews.jsonl").exists()


@pytest.mark.parametrize("line", ['{"recordings": ["0a1', "[[[", "[]", '{"recordings": 3}'])
def test_a_damaged_line_of_what_was_removed_is_named(
    out: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended every command that lists sources with an internal error, `forget` too."""
    (out / "forgotten.jsonl").write_text(f'{{"recordings": ["0a1b"]}}\n{line}')
    words = ["plan", str(out.parent / "settings.yaml"), "--set", f"out={out}"]
    for command in (words, ["forget", str(out), "--recording", "c/r01.wav"]):
        sentence = told(capsys, *command, code=1)
        assert f"line 2 of {out / 'forgotten.jsonl'} is damaged" in sentence
        assert "`uttermill forget` what it was about once more" in sentence


# Beside a run and a prune


def during(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, act: Callable[[], object]
) -> None:
    """Call `act` before a function of the command."""
    real = getattr(module, name)

    def called(*given: object, **named: object) -> object:
        monkeypatch.setattr(module, name, real)
        act()
        return real(*given, **named)

    monkeypatch.setattr(module, name, called)


def test_a_version_that_is_removed_while_it_is_read(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version, aside = out / "datasets/v0002", out / "aside"
    for module, name, words in (
        (tables, "parts", ["ledger", str(out)]),
        (versions, "files", ["list", str(version)]),
        (storage, "hashed", ["list", str(version)]),
    ):
        during(monkeypatch, module, name, lambda: version.rename(aside))
        assert f"{version} holds no dataset.json: it was removed meanwhile; run the command " in (
            told(capsys, *words, code=2)
        )
        aside.rename(version)


def test_a_run_that_is_removed_while_it_is_read(out: Path) -> None:
    job, folder = run_folder.settings_of(out).job(), run_folder.newest(out)
    (folder / run_folder.SETTINGS).unlink()
    with pytest.raises(ConfigError, match="was removed meanwhile; run the command again"):
        report.page(job, folder)


@pytest.mark.full
def test_numbers_of_two_states_are_told(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A prune beside what compares: what-if, and a prune that only lists."""
    limit = ["what-if", str(out), "--set", "filter.filters=[{use: duration, min: 0.7}]"]
    for module, name, words in (
        (what_if, "of_shards", limit),
        (prune, "plan", ["prune", str(out), "--keep", "1", "--json"]),
    ):
        assert "came or went" not in told(capsys, *words, code=0)
        shutil.copytree(out / "datasets", out.parent / "datasets", symlinks=True)
        during(monkeypatch, module, name, lambda: shutil.rmtree(out / "datasets/v0001"))
        assert "came or went while it was read" in told(capsys, *words, code=0)
        shutil.rmtree(out / "datasets")
        (out.parent / "datasets").rename(out / "datasets")
    assert cli.main(["prune", str(out), "--keep", "1", "--yes", "--json"]) == 0
    printed = capsys.readouterr()
    assert "came or went" not in printed.err
    assert json.loads(printed.out)["versions"] == ["v0001"]
    assert [version.name for version in versions.all_of(out)] == ["v0002"]


# The explorer


def explored(out: Path) -> list[str | None]:
    """The texts of all items."""
    home = out.parent / "scratch"
    home.mkdir()
    shown = Corpus(out, home)
    try:
        return [row["text"] for row in shown.rows(f"SELECT text FROM {shown.items().name}")]
    finally:
        shown.close()
        shutil.rmtree(home)


@pytest.mark.parametrize("name", ["manifests/shard/*/*", "manifests/package/facts/*/limits.arrow"])
def test_a_damaged_checkpoint_does_not_hide_the_version(out: Path, name: str) -> None:
    whole = explored(out)
    halved(next(out.glob(name)))
    assert explored(out) == whole


@pytest.mark.parametrize("damage", [gone, nightly(halved)])
@pytest.mark.parametrize("name", ["ledger.parquet", "utterances.parquet"])
def test_a_damaged_table_is_not_shown(
    out: Path, name: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(out / "datasets/v0002" / name)
    with pytest.raises(RunError, match=rf"{name}.*`uttermill verify` names"):
        explored(out)
    assert "are left out" not in caplog.text


# A full disk below the temporary folder


@pytest.mark.parametrize("at", ["plan", "what-if"])
def test_the_temporary_folder_that_is_full_is_named(
    out: Path,
    at: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command that only reads writes nowhere else."""

    def full(store: object, path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    shutil.rmtree(out / "manifests/package")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Local, "write", full)
    words = next(words for words in reading(out) if words[0] == at)
    if at == "plan":  # of new recordings
        corpus.add(out.parent / "in", 4)
        words += ["--set", f"sources=[{{kind: folder, path: {out.parent / 'in'}, name: c}}]"]
    assert f"no space left on {tmp_path} (" in told(capsys, *words, code=1)
