"""For lists over all shards: the published rows, shard by shard, without loading all of them; and
`<format>/<split>/data.list`, the path of each shard's main file in the version, one a line."""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path

from .. import storage
from ..base import schema
from ..base.schema import UTTERANCES_FILE, ClipRow
from ..storage import tables, write_atomic
from . import OutputShard

NAME = "data.list"
_SNIPPET = """\
list="$(mktemp -d)/{split}.{ending}"
uttermill list . --format {use} --split {split} > "$list"  # with full paths
echo "$list"
# {trainer}
"""


def snippet(ending: str, trainer: str) -> tuple[str, str]:
    """For the data card, of a format whose list has the paths of clips. `trainer`: how it reads
    the list."""
    return "bash", _SNIPPET.replace("{ending}", ending).replace("{trainer}", trainer)


def by_folder(shards: Sequence[OutputShard]) -> dict[str, list[OutputShard]]:
    members: dict[str, list[OutputShard]] = {}
    for shard in shards:
        members.setdefault(shard.path.rpartition("/")[0], []).append(shard)
    return members


def write(shards: Sequence[OutputShard], home: Path) -> None:
    for folder, members in by_folder(shards).items():
        paths = "".join(f"{shard.path}\n" for shard in members)
        write_atomic(home / folder / NAME, paths.encode())


def lines(home: Path, pattern: str) -> list[str]:
    """The lines of the files in a version that match a pattern."""
    # Not `splitlines`: a text may contain U+2028.
    files = (storage.read(path).decode().split("\n") for path in sorted(home.glob(pattern)))
    return [line for all_lines in files for line in all_lines if line]


def published(home: Path) -> list[str]:
    """The columns of a version that `package.publish` names."""
    return schema.published(tables.schema(home / UTTERANCES_FILE))


def clips(
    shards: Sequence[OutputShard], home: Path, columns: Sequence[str]
) -> Iterator[tuple[str, Iterator[tuple[str, ClipRow]]]]:
    """Each split with the path and row of each clip, for a format that has a file for each clip.
    The shards of a split follow one another."""
    for split, part in groupby(stream(shards, home, columns), lambda pair: pair[0].split):
        pairs = (zip(shard.files, rows, strict=True) for shard, rows in part)
        yield split, chain.from_iterable(pairs)


def prefixed(use: str, home: Path, split: str, head: str) -> list[str]:
    """`listing` of a format whose lists hold paths alone."""
    return [under(head, line) for line in lines(home, f"{use}/{split}/{NAME}")]


def folders(use: str, mark: str, home: Path, split: str, head: str) -> list[str]:
    """`listing` of a format whose reader takes a folder: that of each split, which has a file
    `mark`."""
    marks = sorted(home.glob(f"{use}/{split}/{mark}"))
    paths = (path.relative_to(home).as_posix() for path in marks)
    return [under(head, path.removesuffix(f"/{mark}")) for path in paths]


def under(head: str, path: str) -> str:
    """A path that a list holds, below `head`; UnsafePlace if it leads out of the version."""
    storage.check_name(path)
    return f"{head}/{path}"


def stream(
    shards: Sequence[OutputShard], home: Path, columns: Sequence[str]
) -> Iterator[tuple[OutputShard, list[ClipRow]]]:
    """Each shard of one format with its rows, in order, from `home/utterances.parquet`."""
    rows = (
        row
        for part in tables.row_groups(home / UTTERANCES_FILE, columns)
        for batch in part.to_batches(max_chunksize=4096)
        for row in batch.to_pylist()
    )
    for shard in shards:
        yield shard, [next(rows) for _ in range(shard.clips)]


def write_splits(shards: Sequence[OutputShard], folder: Path, pattern: str) -> None:
    """`folder/README.md`, whose header names the splits to Hugging Face's `datasets`; `pattern`:
    the files of a `{split}`."""
    head = ["---", "configs:", "- config_name: default", "  data_files:"]
    for split in dict.fromkeys(shard.split for shard in shards):
        head += [f'  - split: "{split}"', f'    path: "{pattern.format(split=split)}"']
    write_atomic(folder / "README.md", "\n".join([*head, "---", ""]).encode())
