"""Sources that mean harm, and a watched process that runs the whole line over them.

`python -m tests.helpers.hostile SETTINGS.json` prints one JSON object: what was opened for
writing, renamed or removed and where, programs started, connections made,
classes that a pickle asked for, and the
peak of memory. The hook cannot be taken away again, hence a process of its own.
"""

import io
import json
import os
import pickle
import random
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile as sf

from tests.helpers import corpus, memory, mutated

LIMIT = 3 << 29  # 1.5 GiB of address space beyond the imports: a claim of 10 GB would break it
CLAIM = 10 << 30


class Bomb:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.path),)


def wav(seed: int) -> bytes:
    memory = io.BytesIO()
    sf.write(memory, corpus.speech(seed, 0.5, 8000), 8000, "PCM_16", format="WAV")
    return memory.getvalue()


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: Any) -> bytes:
    """A tar member as bytes; `size=` and `linkname=` may lie."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for key, value in more.items():
        setattr(info, key, value)
    head = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return head + data + b"\0" * (-len(data) % 512)


def evil_tar(canary: Path) -> bytes:
    """Names that leave the folder, links, devices; good clips before and after each."""
    away = [
        "../escaped.wav", "../../escaped.wav", f"{canary.parent}/escaped.wav", "a/../../../x.wav",
        "/etc/uttermill.wav", "./././deep/../../up.wav", "C:\\up.wav", "..", "../", "con.wav/",
        "~/home.wav", "$HOME/x.wav", "-rf.wav", "new\nline.wav", "\udcff.wav", ".", "",
    ]  # fmt: skip
    parts = [member(name, wav(n)) for n, name in enumerate(away)]
    target = str(canary)
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        parts += [member("link.wav", kind=kind, linkname=target), member("link.wav", wav(50))]
        parts += [
            member("dir", kind=kind, linkname=str(canary.parent)),
            member("dir/x.wav", wav(51)),
        ]
    for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        parts.append(member("device.wav", kind=kind, devmajor=1, devminor=5))
    return b"".join(parts) + member("good.wav", wav(60)) + b"\0" * 1024


def lists(canary: Path) -> dict[str, bytes]:
    """Kaldi and JSONL lists whose entries run, leave, or claim."""
    run = f"touch {canary.parent}/ran"
    paths = [
        f"{run} |", f"| {run}", f"$({run})", f"`{run}`", f"; {run}", f"pipe:{run}", "-",
        "/dev/zero", "/dev/stdin", "/proc/self/environ", "../canary.wav", str(canary),
        "/etc/passwd", "~root/x", "file:///etc/passwd",
        "http://user:hunter2@127.0.0.1:9/x.wav", "concat:a.wav|b.wav",
    ]  # fmt: skip
    scp = "".join(f"k{n} {path}\n" for n, path in enumerate(paths))
    lines = [json.dumps({"key": f"k{n}", "wav": path}) for n, path in enumerate(paths)]
    juicer = [json.dumps({"audios": [path], "text": "x"}) for path in paths]
    return {
        "wav.scp": scp.encode(), "list.jsonl": "\n".join(lines).encode(),
        "juicer.jsonl": "\n".join(juicer).encode(),
    }  # fmt: skip


def pickles(folder: Path, canary: Path) -> None:
    """Pickles wherever bytes are read from: files by every name, tar members, Parquet cells."""
    bomb = pickle.dumps(Bomb(canary.parent / "unpickled"))
    array = io.BytesIO()
    np.save(array, np.array([Bomb(canary.parent / "unpickled")], dtype=object), allow_pickle=True)
    for number, name in enumerate(("x.wav", "x.npy", "x.pkl", "x.pt", "x.npz", "x.mp3")):
        (folder / name).write_bytes(array.getvalue() if number % 2 else bomb)
    names = ("a.wav", "a.pkl", "a.npy", "a.json", "a.txt", "a.pyd", "b.pth", "b.wav")
    (folder / "pickles.tar").write_bytes(b"".join(member(n, bomb) for n in names) + b"\0" * 1024)
    # What pyarrow before 14.0.1 unpickled when it read a schema.
    told = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": bomb}
    audio = pa.field("audio", pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    text = pa.field("text", pa.string(), metadata=told)
    cells = [{"bytes": bomb, "path": "x.wav"}, {"bytes": wav(70), "path": "y.wav"}]
    table = pa.table([pa.array(cells, audio.type), pa.array(["a", "b"])], pa.schema([audio, text]))
    pq.write_table(table, folder / "pickles.parquet")


def claims() -> dict[str, bytes]:
    """Small files that say they are of 10 GB."""
    clip = bytearray(wav(80))
    clip[4:8] = clip[40:44] = b"\xf0\xff\xff\x7f"
    sparse = member("sparse.wav", b"x" * 512, tarfile.GNUTYPE_SPARSE)
    return {
        "big.tar": member("big.wav", wav(81)[:512], size=CLAIM) + b"\0" * 1024,
        "text.tar": member("t.wav", wav(82)) + member("t.txt", b"x" * 512, size=CLAIM),
        "name.tar": member("././@LongLink", b"x" * 512, tarfile.GNUTYPE_LONGNAME, size=CLAIM),
        "pax.tar": member("p", b"99 size=10737418240\n", tarfile.XHDTYPE)
        + member("p.wav", wav(83)),
        "sparse.tar": sparse + member("s.wav", wav(84)) + b"\0" * 1024,
        "claims.wav": bytes(clip),
    }


def build(folder: Path, canary: Path, damaged: int, seed: int = 5) -> list[dict[str, Any]]:
    """All of it in `folder`; the sources that read it."""
    chance = random.Random(seed)
    files, tars, records = folder / "files", folder / "tars", folder / "lists"
    for each in (files, tars, records):
        each.mkdir(parents=True)
    for name, data in lists(canary).items():
        (records / name).write_bytes(data)
    for name, data in claims().items():
        (files if name.endswith(".wav") else tars).joinpath(name).write_bytes(data)
    (tars / "evil.tar").write_bytes(evil_tar(canary))
    for number in range(damaged):
        kind, data = mutated.damaged(seed, number)
        (files / f"{number:06d}.{kind}.wav").write_bytes(data)
        if number % 20 == 0:
            packed = bytearray(evil_tar(canary))
            for _ in range(chance.randrange(1, 12)):
                packed[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
            cut = len(packed) if number % 40 else chance.randrange(len(packed))
            (tars / f"{number:06d}.tar").write_bytes(bytes(packed[:cut]))
    for number in range(5):
        (files / f"good{number}.wav").write_bytes(wav(90 + number))
    (files / "away.wav").symlink_to(canary)
    (files / "loop").symlink_to("..")
    os.mkfifo(files / "pipe.wav")
    pickles(files, canary)
    (files / "pickles.parquet").rename(records / "pickles.parquet")
    (files / "pickles.tar").rename(tars / "pickles.tar")
    every = [
        {"kind": "folder", "path": files}, {"kind": "tar", "path": tars},
        {"kind": "kaldi", "path": records}, {"kind": "jsonl", "path": records / "list.jsonl"},
        {"kind": "datajuicer", "path": records / "juicer.jsonl"},
        {"kind": "hf_parquet", "path": records / "pickles.parquet"},
    ]  # fmt: skip
    return [
        {**each, "path": str(each["path"]), "name": f"s{n}", "expect_broken": True}
        for n, each in enumerate(every)
    ]


# The watched process


WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Which arguments of an audit event are paths, and which the folders they are relative to.
CHANGES = {
    "os.mkdir": ((0, 2),), "os.rename": ((0, 2), (1, 3)), "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),), "os.symlink": ((1, 2),), "os.link": ((1, 3),), "os.chmod": ((0, 2),),
    "os.utime": ((0, 3),), "os.chown": ((0, 3),), "os.truncate": ((0, None),),
}  # fmt: skip
FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork",
             "socket.connect", "socket.getaddrinfo", "pickle.find_class")  # fmt: skip


def watch(changed: set[str], forbidden: list[str]) -> Callable[[str, tuple[Any, ...]], None]:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes) and flags & WRITES:
                changed.add(os.path.abspath(os.fsdecode(path)))
        elif event in CHANGES:
            for index, relative_to in CHANGES[event]:
                if isinstance(arguments[index], str | bytes | os.PathLike):
                    folder = arguments[relative_to] if relative_to is not None else -1
                    base = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else "."
                    path = os.path.join(base, os.fsdecode(arguments[index]))
                    changed.add(os.path.abspath(path))
        elif event in FORBIDDEN:
            forbidden.append(f"{event} {arguments!r}"[:300])

    return hook


def main(path: str) -> dict[str, Any]:
    from uttermill.flows import checks, settings
    from uttermill.flows.run import run_folder
    from uttermill.tasks import pipeline

    chosen = settings.parse(json.loads(Path(path).read_text()))
    changed: set[str] = set()
    forbidden: list[str] = []
    job = checks.check(chosen)
    memory.limit(LIMIT)
    sys.addaudithook(watch(changed, forbidden))
    with run_folder.record(job.out, chosen) as record:
        published, stages = pipeline.run_here(job)
        record.finish({})
    return {
        "changed": sorted(changed), "forbidden": forbidden, "dataset": str(published.path),
        "summary": published.summary, "stages": stages,
        "peak": memory.peak(),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
