"""What need not be looked at again: a run with nothing to do, and shards that nobody touched."""

import json
import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks import pipeline
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.plugins import source_code
from uttermill.tasks.publish import package
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.publish.outcomes import shard_batches
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest, recipe
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.shard_store.stored_shard import StoredShard
from uttermill.tasks.stages import contract, stage
from uttermill.tasks.storage import versions

SHARDS = 3  # of four recordings each
TEN = {"settle_seconds": 0, "hours": corpus.seconds_of(0) * 4 / 3600}

FAKE = {"backend": {"use": "fake"}}


class Looks:
    """Which shards were looked up in the manifests, by the flow or by a stage that it sent for, and
    how often package gathered."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.shards: set[str] = set()
        self.gathered = 0
        pending, run, gather = stage.pending, stage.run, package.gather

        def counted(name: str, job: Job, shard: str) -> tuple[int, int]:
            self.shards.add(shard)
            return pending(name, job, shard)

        def running(name: str, job: Job, shard: str, *given: Any) -> Any:
            self.shards.add(shard)
            return run(name, job, shard, *given)

        def gathering(*given: Any) -> Any:
            self.gathered += 1
            return gather(*given)

        patch.setattr(stage, "pending", counted)
        patch.setattr(stage, "run", running)
        patch.setattr(package, "gather", gathering)

    def forget(self) -> None:
        self.shards, self.gathered = set(), 0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


@pytest.fixture
def home(tmp_path: Path, looks: Looks) -> Path:
    corpus.make(tmp_path / "in", 12)
    corpus.run(asked(tmp_path))
    assert len(manifest.shards(tmp_path / "out")) >= SHARDS
    looks.forget()
    return tmp_path


def asked(home: Path, **more: Any) -> Job:
    return corpus.job(home, **{"shard": TEN, **more})


def note(home: Path) -> Path:
    return home / "out/manifests/index.json"


@pytest.mark.full
def test_a_run_with_nothing_to_do_looks_at_nothing(home: Path, looks: Looks) -> None:
    """With the counts, the summary and the balance of a run that looks at everything."""
    quick, counts = corpus.run(asked(home))
    assert (looks.shards, looks.gathered) == (set(), 0)
    assert (quick.new, quick.path.name) == (False, "v0001")
    note(home).unlink()
    whole, again = corpus.run(asked(home))
    assert looks.gathered == 1
    assert looks.shards == set(manifest.shards(home / "out"))
    assert counts == again
    assert (quick.summary, quick.balance) == (whole.summary, whole.balance)
    assert quick.done.reused == whole.done.reused > 0


@pytest.mark.nightly
def test_only_what_was_touched_is_looked_at(home: Path, looks: Looks) -> None:
    before = set(manifest.shards(home / "out"))
    corpus.add(home / "in", 12)
    _, counts = corpus.run(asked(home))
    [new] = set(manifest.shards(home / "out")) - before
    assert looks.shards == {new}
    assert looks.gathered == 1
    assert counts["filter"] == (1, 12)
    looks.forget()
    corpus.run(asked(home))
    assert (looks.shards, looks.gathered) == (set(), 0)


def flipped(home: Path, root: str) -> None:
    path = corpus.parts(home / "out", root)[0]
    corpus.flip(path, path.stat().st_size // 2)


def cut(home: Path) -> None:
    path = corpus.parts(home / "out", "audio")[0]
    path.write_bytes(path.read_bytes()[:-2])


def removed(home: Path) -> None:
    corpus.parts(home / "out", "manifests/transcribe")[0].unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    **{name: partial(flipped, root=f"manifests/{name}") for name in versions.STAGES},
    "audio": partial(flipped, root="audio"), "cut": cut, "removed": removed,
}  # fmt: skip


@pytest.mark.parametrize("damage", tiers.few(DAMAGES, "filter", "audio", "cut", "removed"))
@pytest.mark.nightly
def test_a_touched_checkpoint_is_looked_at(home: Path, looks: Looks, damage: str) -> None:
    DAMAGES[damage](home)
    corpus.run(asked(home))
    assert len(looks.shards) == 1
    assert looks.gathered == 1


@pytest.mark.nightly
def test_another_release_looks_at_everything(
    home: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_code, "of_package", lambda: "another")
    corpus.run(asked(home))
    assert looks.shards == set(manifest.shards(home / "out"))
    assert looks.gathered == 1


def opened(patch: pytest.MonkeyPatch) -> set[str]:
    """The shards that `plan` and `prune` open from now on."""
    names, unneeded = set[str](), prune.find_unneeded

    class Opening(ShardView):
        def __init__(self, job: Job, shard: str, *given: Any, **more: Any) -> None:
            names.add(shard)
            super().__init__(job, shard, *given, **more)

    def opening(out: Path, shard: str, *given: Any) -> prune.Unneeded:
        names.add(shard)
        return unneeded(out, shard, *given)

    patch.setattr(planning, "ShardView", Opening)
    patch.setattr(prune, "find_unneeded", opening)
    return names


def foreseen(job: Job) -> tuple[Any, Any]:
    """What `plan` says of each stage, and what `prune` would remove."""
    settings = [
        prune.KeptSettings(job, recipe.weights_of(job.transcribe.recognisers), current=True)
    ]
    goes = prune.plan(job.out, prune.kept_versions(job.out, 1), settings).goes
    return planning.plan(job, job).stages, goes


@pytest.mark.nightly
def test_after_an_upgrade_plan_and_prune_open_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run looks at each shard once: other code may let other clips pass."""
    names, before = opened(monkeypatch), foreseen(asked(home))
    assert names == set()
    monkeypatch.setattr(source_code, "of_package", lambda: "another")
    monkeypatch.setattr(datacard, "libraries", lambda: {"uttermill": "9.9"})
    assert foreseen(asked(home)) == before
    assert names == set()


@pytest.mark.nightly
def test_another_licence_is_gathered_anew(home: Path, looks: Looks) -> None:
    source = {"kind": "folder", "path": str(home / "in"), "name": "c", "licence": "CC0-1.0"}
    made, _ = corpus.run(asked(home, sources=[source]))
    assert (made.new, looks.gathered) == (True, 1)


@pytest.mark.nightly
def test_every_flip_of_the_note_is_noticed(home: Path, looks: Looks) -> None:
    whole = note(home).read_bytes()
    chance = random.Random(1)
    places = [0, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(20))]
    flips = [whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :] for at in places]
    for damaged in (*flips, b"", b"[1]", b'{"format": 1}'):
        note(home).write_bytes(damaged)
        corpus.run(asked(home))
        assert looks.gathered == 1, damaged
        assert note(home).read_bytes() == whole, "it is written anew"
        looks.forget()


@pytest.mark.parametrize("step", tiers.few(stage.PER_SHARD, "resample"))
@pytest.mark.nightly
def test_rot_that_no_stat_shows_is_in_no_version(home: Path, step: str) -> None:
    """Nobody looks at the shard, and package has its decisions; who reads it makes it again."""
    part = corpus.parts(home / "out", f"manifests/{step}")[0]
    about = part.stat()
    corpus.flip(part, about.st_size // 2)
    os.utime(part, ns=(about.st_atime_ns, about.st_mtime_ns))
    manifest._parts.clear()  # as in another process
    corpus.add(home / "in", 12)
    grown, counts = corpus.run(asked(home))
    assert grown.path.name == "v0002"
    assert grown.summary["recordings"]["failed"] == 0
    assert grown.summary["utterances"]["packaged"] == 13
    assert counts[step][0] == 1, "it was read"
    assert verify(grown.path) == []
    shutil.rmtree(shard_batches.home(home / "out"))
    corpus.add(home / "in", 13)
    grown, counts = corpus.run(asked(home))
    assert grown.summary["utterances"]["packaged"] == 14
    assert counts[step][0] > 1, "package met the damage"


@pytest.mark.nightly
def test_a_list_that_is_edited_meanwhile_is_read_by_the_next_run(
    home: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = home / "test.txt"
    listed.write_text("c/r01.wav\n")
    splits = {"splits": {"test": {"list": str(listed)}}, "resplit": True}
    publish = package.publish

    def slowly(*given: Any) -> Path:
        listed.write_text("c/r02.wav\n")
        return publish(*given)

    with monkeypatch.context() as patch:
        patch.setattr(package, "publish", slowly)
        corpus.run(asked(home, package=splits))
    looks.forget()
    assert corpus.run(asked(home, package=splits))[0].new
    assert looks.gathered == 1


@pytest.mark.nightly
def test_a_helper_of_a_plugin_is_a_part_of_it(
    home: Path, looks: Looks, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_limit.py").write_text("LEAST = 1\n")
    (folder / "__init__.py").write_text("")
    plugin = (
        "from uttermill.tasks.text.empty_text import *\n"
        "from uttermill.tasks.text.empty_text import verdict\n"
    )
    (folder / "own_text.py").write_text(plugin + "VERSION = 1\nimport own.own_limit\n")
    (folder.parent / "own").symlink_to(folder)
    monkeypatch.syspath_prepend(str(folder.parent))
    verdicts = {"verdicts": [{"use": "own.own_text"}]}
    corpus.run(asked(home, transcribe={**FAKE, **verdicts}))
    looks.forget()
    corpus.run(asked(home, transcribe={**FAKE, **verdicts}))
    assert looks.gathered == 0
    (folder / "own_limit.py").write_text("LEAST = 2\n")
    corpus.run(asked(home, transcribe={**FAKE, **verdicts}))
    assert looks.gathered == 1


@pytest.mark.nightly
def test_latest_is_mended_without_a_look(home: Path, looks: Looks) -> None:
    latest = home / "out/datasets/latest"
    latest.unlink()
    corpus.run(asked(home))
    assert latest.resolve().name == "v0001"
    assert looks.gathered == 0


@pytest.mark.nightly
def test_a_run_that_fails_notes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = json.loads(note(home).read_text())
    corpus.add(home / "in", 12)

    def refused(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(package, "publish", refused)
    with pytest.raises(OSError, match="no"):
        corpus.run(asked(home))
    after = json.loads(note(home).read_text())
    assert [after[name] for name in ("shards", "version")] == [before["shards"], before["version"]]
    assert len(after["files"]) == len(before["files"]) + 1, "the new shard's snapshot"


@pytest.mark.full
def test_what_died_is_tried_again_when_asked(home: Path, looks: Looks) -> None:
    """`shard.retry` takes rows out of the manifests, and so the shard is looked at."""
    poison = {"use": "tests.plugins.poison", "how": "memory_error", "seconds": corpus.seconds_of(5)}
    corpus.run(asked(home, filter=corpus.filters(poison)))
    looks.forget()
    corpus.run(asked(home, filter=corpus.filters(poison)))
    assert (looks.shards, looks.gathered) == (set(), 0)
    again = {**TEN, "retry": True}
    corpus.run(asked(home, filter=corpus.filters(poison), shard=again))
    assert len(looks.shards) == 1


def test_a_new_shard_is_counted_without_working_out_what_it_would_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow asks this of a hundred thousand shards, of which most store nothing yet."""
    corpus.make(tmp_path / "in", 6)
    (tmp_path / "in" / "broken.wav").write_bytes(b"no audio at all" * 100)
    job = corpus.job(tmp_path)
    pipeline.run_shard_stage(job, Executor(), job.scratch or tmp_path / "scratch")
    (name,) = manifest.shards(job.out)
    units, reused = contract.find("filter").todo(ShardView(job, name))
    wanted = sum(unit.items for unit in units), reused

    def never(*args: object) -> str:
        raise AssertionError("a recipe was worked out")

    with monkeypatch.context() as patch:
        patch.setattr(StoredShard, "cut_recipes", property(never))
        assert stage.pending("filter", job, name) == wanted == (6, 0)
        with pytest.raises(AssertionError, match="worked out"):  # the control
            contract.find("filter").todo(ShardView(job, name))
    stage.run("filter", job, name)
    assert stage.pending("filter", job, name) == (0, 6)
