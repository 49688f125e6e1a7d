"""`emilia`: folders and lists as Emilia-Pipe leaves them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import soundfile as sf

from tests.helpers import corpus, published
from tests.helpers.published import Row
from uttermill.tasks import audio
from uttermill.tasks.formats import Output, emilia
from uttermill.tasks.publish.output_shards import format_shards
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.shard_store.decision_log import Decision


def clip(number: int, recording: str, start: float, **changes: Any) -> Row:
    return published.row(number, recording=recording, start=start, end=start + 0.4, **changes)


#: The clips of one recording lie in two groups, not in the order of time.
GROUPS = [
    [clip(0, "d/a b.wav", 10.0), clip(1, "d/a_b.wav", 3.0), clip(2, "d/a b.wav", 2.5)],
    [clip(3, "d/a b.wav", 5.25, speaker="Ада"), clip(4, "d/录音.flac", 0.0, language=None),
     clip(5, "d/a b.wav", 2.5, dnsmos_ovrl=None, id="d-00")],
    [clip(6, "d/x/a.mp3", 0.0, split="dev", text="")],
]  # fmt: skip
ROWS = [row for group in GROUPS for row in group]


def lists(home: Path) -> dict[Path, list[dict[str, Any]]]:
    return {p: json.loads(p.read_text("utf-8")) for p in sorted(home.glob("emilia/*/*/*.json"))}


def test_the_index_is_that_of_the_file(tmp_path: Path) -> None:
    published.publish(tmp_path, "emilia", GROUPS)
    rows = {row["id"]: row for row in ROWS}
    found = lists(tmp_path)
    assert len(found) == 4
    assert {path.parts[-3] for path in found} == {"train", "dev"}
    heard = set()
    for path, entries in found.items():
        assert path.stem == path.parent.name
        files = sorted(p.name for p in path.parent.glob("*.wav"))
        assert files == [f"{path.stem}_{i}.wav" for i in range(len(entries))]
        assert [e["start"] for e in entries] == sorted(e["start"] for e in entries)
        assert len({rows[e["id"]]["recording"] for e in entries}) == 1
        for name, entry in zip(files, entries, strict=True):
            row = rows[entry.pop("id")]
            heard.add(row["id"])
            assert entry == {
                "text": row["text"], "start": row["start"], "end": row["end"],
                "speaker": row["speaker"] or "SPEAKER_00", "language": row["language"],
                "dnsmos": row["dnsmos_ovrl"],
            }  # fmt: skip
            assert published.sha256(path.parent / name) == row["sha256"]
    assert heard == set(rows)


def test_places_depend_on_no_order() -> None:
    names = ("id", "recording", "split", "start", "end")
    table = pa.Table.from_pylist([{name: row[name] for name in names} for row in ROWS])

    def placed(rows: pa.Table) -> Any:
        numbers = format_shards.places([Plugin(use="emilia")], rows.select)
        return None if numbers is None else numbers.to_pylist()

    assert placed(table) == [3, 0, 1, 2, 0, 0, 0]  # equal spans by id
    assert placed(table.take(list(range(6, -1, -1)))) == placed(table)[::-1]
    assert placed(table.slice(0, 0)) == []
    assert format_shards.places([Plugin(use="wenet")], table.select) is None


def test_clips_after_a_dropped_one_move_up(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in/a.wav", corpus.speech(1, 4.0, 16000), 16000)
    parts = [{"start": n, "end": n + 0.9, "text": f"text {n}"} for n in range(4)]
    (tmp_path / "in/a.json").write_text(json.dumps({"segments": parts}))
    filters = {**corpus.filters(), "segmenter": {"use": "given"}}
    job = corpus.job(tmp_path, filter=filters, package={"formats": ["emilia"]})
    one = corpus.run(job)[0].path
    ids = pq.read_table(one / "utterances.parquet").sort_by("start")["id"].to_pylist()
    assert len(ids) == 4
    decision_log.append(job.out, [Decision(ids[1], "drop", None)])
    two = corpus.run(job)[0].path
    [entries] = lists(two).values()
    assert [entry["id"] for entry in entries] == [ids[0], *ids[2:]]
    assert verify(two) == []


def test_mp3_has_the_length_of_the_clip(tmp_path: Path) -> None:
    made = published.publish(tmp_path / "one", "emilia", GROUPS, audio="mp3")
    for shard, group in zip(made, GROUPS, strict=True):
        for name, row in zip(shard.files, group, strict=True):
            assert name.endswith(".mp3")
            assert audio.probe(Locator(str(tmp_path / "one" / name))).format == "mp3/mp3float"
            with audio.open_stream(Locator(str(tmp_path / "one" / name))) as stream:
                count = sum(len(block) for block in stream.blocks())
            assert abs(count - row["num_samples"]) <= 1152
    published.publish(tmp_path / "two", "emilia", GROUPS, audio="mp3")
    for name in made[0].files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    victim = tmp_path / "one" / made[0].files[0]
    victim.write_bytes(victim.read_bytes()[:400])
    settings = emilia.Settings(audio="mp3")
    rows: Any = GROUPS[0]
    assert emilia.check(made[0], rows, Output(tmp_path / "one"), settings) != []
