"""Commands that look at an OUT change nothing in it, whatever is damaged; a run repairs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import corpus, tampered
from tests.helpers.tampered import SHARD
from uttermill.flows import cli
from uttermill.flows.run import run_folder
from uttermill.tasks.base.errors import CorruptManifest
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.shard_store import manifest


def flip(path: Path) -> str:
    """Change a byte as bit rot does, so that no time tells of it; the file's name."""
    status = path.stat()
    corpus.flip(path, status.st_size // 2)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return path.name


KINDS = {
    **{f"part of {stage}": f"manifests/{stage}/{SHARD}/*.parquet" for stage in corpus.STAGES[:4]},
    "blob": f"audio/{SHARD}/*.pcm",
}


def damaged_everywhere(out: Path) -> list[str]:
    """A byte of each kind of file, what no run writes, and links, where they are not refused; the
    names of what is damaged in checkpoints."""
    names = [flip(path) for kind in KINDS.values() for path in out.glob(kind)]
    (out / "manifests/package/guards.json").write_bytes(b"{")
    for path in (*out.glob("manifests/package/*/*.*"), *out.glob("manifests/package/facts/*/*")):
        if path.is_file() and path.suffix != ".json":
            flip(path)
    (out / "manifests/index.json").write_bytes(b"no JSON")
    for name in ("notes.txt", "copy.parquet", f"000000-{16 * '0'}.parquet.bak"):
        (out / f"manifests/filter/{SHARD}/{name}").write_text(name)
    (out / "manifests/shard/mine").mkdir()
    (out / "manifests/shard/mine/mine.parquet").write_text("mine")
    (out / f"audio/{SHARD}/mine.pcm").write_text("mine")
    (out / f"audio/{SHARD}/{16 * '0'}.pcm").symlink_to(out.parent / "victim/thesis.txt")
    (out / "manifests/package/facts/mine").mkdir()
    (out / "manifests/package/facts/mine/mine.txt").write_text("mine")
    (out / "manifests/package/mine.arrow").write_text("mine")
    return names


FOREIGN = (
    f"manifests/filter/{SHARD}/notes.txt", f"manifests/filter/{SHARD}/copy.parquet",
    f"manifests/filter/{SHARD}/000000-{16 * '0'}.parquet.bak", "manifests/shard/mine/mine.parquet",
    f"audio/{SHARD}/mine.pcm", "manifests/package/facts/mine/mine.txt",
    "manifests/package/mine.arrow",
)  # fmt: skip


@pytest.mark.full
def test_all_damage_at_once(
    out: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    names = damaged_everywhere(out)
    foreign = {name: (out / name).read_bytes() for name in FOREIGN}
    outside = tampered.tree(out.parent / "victim")
    before = tampered.tree(out)
    tampered.look(out)
    assert tampered.tree(out) == before
    told = capsys.readouterr().out
    assert all(name in told for name in names), "verify --deep reads all"
    for name in ("mine.pcm", f"{16 * '0'}.pcm", "notes.txt", "copy.parquet"):
        assert name in caplog.text
    assert "not written by uttermill, so not read, and left where it lies" in caplog.text
    shutil.rmtree(out / "datasets")
    tampered.run(out)
    assert verify(out / "datasets/v0001") == []
    assert {name: (out / name).read_bytes() for name in FOREIGN} == foreign
    assert tampered.tree(out.parent / "victim") == outside
    # Whose listing was lost was listed again, in another shard.
    assert [manifest.recordings(out, shard) for shard in manifest.shards(out)][1:] == [
        [f"c/r{number:02d}.wav" for number in range(3)]
    ]


def test_a_foreign_file_is_not_removed(out: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a fault names, a repair removes files of ours alone."""
    for name in (*FOREIGN, "runs", "datasets/v0001/dataset.json", "../victim/thesis.txt"):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("mine")
        for said in (str(path), str(path.absolute()), f"{out}/audio/{SHARD}/../../{name}"):
            fault = CorruptManifest(f"{name} is damaged", said)
            assert not manifest.repair(out, fault)
            assert path.exists()
    assert "it is no file of uttermill's, so it stays" in caplog.text


READ_ONLY = """
import subprocess, sys
from pathlib import Path
out = Path(sys.argv[1])
for options in (["--bind", str(out), str(out)], ["-o", "remount,bind,ro", str(out)]):
    if subprocess.run(["mount", *options]).returncode:
        sys.exit(77)
from tests.helpers import tampered
try:
    (out / "probe").write_text("")
except OSError:
    print(*tampered.look(out), file=sys.stderr)
else:
    sys.exit("it can be written to")
"""


@pytest.mark.nightly
def test_a_read_only_out_with_damage(out: Path) -> None:
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"]).returncode:
        pytest.skip("no mount namespaces here")
    damaged_everywhere(out)
    before = tampered.tree(out)
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", READ_ONLY, str(out)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    if done.returncode == 77:
        pytest.skip(f"no bind mounts here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    codes = done.stderr.splitlines()[-1].split()
    assert len(codes) == len(tampered.looking(out))
    assert set(codes) <= {"0", "3"}, done.stderr
    assert "Read-only file system" not in done.stderr
    assert tampered.tree(out) == before


@pytest.mark.nightly
def test_the_report_writes_the_report_alone(out: Path) -> None:
    path = next((out / "manifests/transcribe" / SHARD).iterdir())
    corpus.flip(path, path.stat().st_size // 2)
    before = tampered.tree(out)
    assert cli.main(["report", str(out), "--json"]) == 0
    report = (run_folder.newest(out) / "report.html").relative_to(out).as_posix()
    after = tampered.tree(out)
    assert after.pop(report)
    home = str(Path(report).parent)
    assert {**after, home: ()} == {**before, home: ()}
