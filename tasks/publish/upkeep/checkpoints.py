"""`verify --deep`: compare every checkpoint of an OUT with the hash in its name, and the local
sources with their digests.

Nothing is decoded or changed. The next run makes missing files again. It removes a damaged file
only if it reads it, so the remedy is to remove the file by hand. A run at the same time may replace
snapshots of shards; those are not faults.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ... import storage
from ...base.errors import ConfigError, CorruptManifest, UnsafePlace
from ...recording.names import display_text
from ...shard_store import blobs, index, manifest
from ...shard_store.index import Index
from ...shard_store.manifest import Part
from ...stages import stage
from ...stages.listing import known_recordings
from ..outcomes import shard_batches


@dataclass(slots=True)
class Checked:
    faults: list[str] = field(default_factory=list)  # messages
    damaged: list[str] = field(default_factory=list)  # files and folders of OUT to remove
    parts: int = 0
    blobs: int = 0
    bytes: int = 0
    changed: bool = False  # whether a source differs from its digest


def remedy(checked: Checked, out: Path) -> str | None:
    """How to repair the faults; None if there are none."""
    if not checked.faults:
        return None
    if checked.changed:
        return "run once with --set shard.rehash=1, which takes these recordings as changed"
    if not checked.damaged:
        return "the next run makes again what is gone, from the sources; no published file changes"
    names = [*dict.fromkeys(checked.damaged)]
    it = "it" if len(names) == 1 else "them"
    return (
        f"remove {index.named(names)} in {display_text(str(out))}; the next run makes {it} again "
        "from the sources, and no published file changes"
    )


def out_of(version: Path) -> Path:
    """The OUT of a version; raises ConfigError if the version is in no OUT."""
    out = version.parent.parent
    if version.parent.name != "datasets" or not storage.is_folder(out / "manifests"):
        raise ConfigError(
            f"{version} lies in no OUT, so there are no checkpoints to verify; leave out --deep"
        )
    return out


def verify(out: Path) -> Checked:
    """Read all checkpoints of OUT and compare them with their names and with each other."""
    checked = Checked()
    for shard in manifest.shards(out):
        for name in ("shard", *stage.PER_SHARD):
            parts = [*_parts(out, name, shard, checked)]
            if name == "resample":
                checked.faults += _lacking_blobs(out, shard, parts)
        for path in blobs.files(out, shard):
            if _hashed(out, path, path.stem, checked):
                checked.blobs += 1
    for name in known_recordings.differing(out, manifest.shards(out)):
        checked.changed = True
        checked.faults.append(
            f"{display_text(name)} has changed under the same size and times since it was hashed"
        )
    _outcomes(out, checked)
    index = Index(out)
    index.warn_of_foreign()
    reported = "\n".join(checked.faults)
    for name in index.gone():
        if name not in reported:
            checked.faults.append(f"{name} is gone since the last run")
    return checked


def _parts(out: Path, name: str, shard: str, checked: Checked) -> Iterator[Part]:
    """The intact parts of a shard's manifest of stage `name`; records faults of the others."""
    for path in manifest.files(out, name, shard):
        if not _hashed(out, path, path.stem.rsplit("-", 1)[-1], checked):
            continue
        checked.parts += 1
        try:
            yield from manifest.open_parts(path)
        except CorruptManifest as error:
            if storage.exists(path):  # else a run has removed it meanwhile
                checked.faults.append(str(error))
                checked.damaged.append(_name(out, path))


def _outcomes(out: Path, checked: Checked) -> None:
    """Compare the files of shard batches with the hashes in facts.json."""
    home = shard_batches.home(out)
    for name in shard_batches.kept_in(out):
        batch = shard_batches.ShardBatch(home / name, ())
        with suppress(CorruptManifest):
            for file, digest in batch.facts.files.items():
                try:
                    path = storage.inside(batch.home, file)
                    fault = "" if storage.exists(path) else f"{_name(out, path)} is gone"
                except UnsafePlace as error:
                    fault = f"{_name(out, batch.home)}: {error}"
                if fault:
                    checked.faults.append(fault)
                    checked.damaged.append(_name(out, batch.home))
                else:
                    _hashed(out, path, digest, checked, batch.home)


def _hashed(out: Path, path: Path, named: str, checked: Checked, whole: Path | None = None) -> bool:
    """Whether a file has this hash; records a fault if not. `whole`: folder to remove instead."""
    try:
        digest, size = storage.hashed(path)
    except FileNotFoundError:  # removed meanwhile
        return False
    except OSError as error:
        checked.faults.append(f"{_name(out, path)} cannot be read: {error}")
        return False
    checked.bytes += size
    if digest[:16] != named:
        checked.faults.append(f"{_name(out, path)} does not match its hash")
        checked.damaged.append(_name(out, whole or path))
        return False
    return True


def _lacking_blobs(out: Path, shard: str, parts: list[Part]) -> list[str]:
    """Faults of blobs that are gone or too short, unless another has the same PCM."""
    sizes = blobs.sizes(out, shard)
    present: set[str] = set()
    absent: dict[str, str] = {}
    for part in parts:
        for row in part.table.to_pylist():
            if row["error_code"] or blobs.present(row, sizes):
                present.add(row["audio"])
            else:
                absent[row["audio"]] = row["blob"]
    names = sorted({blob for audio, blob in absent.items() if audio not in present})
    says = "is gone or cut short, but PCM in it is asked for"
    return [f"audio/{shard}/{name} {says}" for name in names]


def _name(out: Path, path: Path) -> str:
    return path.relative_to(out).as_posix()
