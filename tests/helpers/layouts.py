"""Small corpora in the layouts of known ones, as people have them on their disks.

Each maker puts its files below a folder and gives what is to come of it: the text, speaker and
language by path from the folder (with `@start` for a segment).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers import corpus

#: (text, speaker, language)
Said = tuple[str | None, str | None, str | None]
Expected = dict[str, Said]


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding=encoding)
    return path


def audio(home: Path, *names: str) -> None:
    for number, name in enumerate(names, 1):
        corpus.add(home, number, seed=hash(name) % 10_000, name=name)


def ljspeech(home: Path) -> Expected:
    write(
        home / "metadata.csv",
        'LJ001-0001|Dr. Smith said "no"|Doctor Smith said "no"',
        "LJ001-0002|without a third column",
        'LJ001-0003|"Hello|"Hello',
    )
    write(home / "README", "about")
    audio(home / "wavs", "LJ001-0001.wav", "LJ001-0002.wav", "LJ001-0003.wav")
    return {
        "wavs/LJ001-0001.wav": ('Doctor Smith said "no"', None, None),
        "wavs/LJ001-0002.wav": ("without a third column", None, None),
        "wavs/LJ001-0003.wav": ('"Hello', None, None),
    }


def m_ailabs(home: Path) -> Expected:
    books = {"female/karen/emma": "a", "mix/tales": "b"}
    for book, name in books.items():
        folder = home / "de_DE/by_book" / book
        write(folder / "metadata.csv", f"{name}_01|Nr. 1|Nummer eins {name}")
        audio(folder / "wavs", f"{name}_01.wav")
    return {
        "de_DE/by_book/female/karen/emma/wavs/a_01.wav": ("Nummer eins a", "karen", "de_DE"),
        "de_DE/by_book/mix/tales/wavs/b_01.wav": ("Nummer eins b", None, "de_DE"),
    }


CV = "client_id\tpath\tsentence_id\tsentence\tup_votes\tdown_votes\tage\tgender\tlocale\tsegment"


def common_voice(home: Path) -> Expected:
    row = "{}\t{}.flac\ts1\t{}\t2\t0\t\t\tcy\t".format
    good = [row("c1", "one", "Dwi yn hoffi coffi"), row("c2", "two", 'Dywedodd "na" wrtho')]
    write(home / "cy/validated.tsv", CV, *good)
    write(home / "cy/train.tsv", CV, good[0])
    write(home / "cy/invalidated.tsv", CV, row("c3", "three", "nid hyn"))
    audio(home / "cy/clips", "one.flac", "two.flac", "three.flac")
    return {
        "cy/clips/one.flac": ("Dwi yn hoffi coffi", "c1", "cy"),
        "cy/clips/two.flac": ('Dywedodd "na" wrtho', "c2", "cy"),
    }


def vctk(home: Path) -> Expected:
    for speaker in ("p225", "p226"):
        write(home / f"txt/{speaker}/{speaker}_001.txt", f"Please call {speaker}.")
        audio(
            home / "wav48_silence_trimmed" / speaker,
            f"{speaker}_001_mic1.flac",
            f"{speaker}_001_mic2.flac",
        )
    return {
        f"wav48_silence_trimmed/{s}/{s}_001_mic1.flac": (f"Please call {s}.", s, None)
        for s in ("p225", "p226")
    }


def librispeech(home: Path) -> Expected:
    folder = home / "dev-clean/1272/128104"
    write(folder / "1272-128104.trans.txt", "1272-128104-0000 MISTER QUILTER", "1272-128104-0001 A")
    audio(folder, "1272-128104-0000.flac", "1272-128104-0001.flac")
    return {
        f"dev-clean/1272/128104/1272-128104-000{n}.flac": (text, "1272", None)
        for n, text in enumerate(("MISTER QUILTER", "A"))
    }


def mls(home: Path) -> Expected:
    folder = home / "mls_polish"
    write(folder / "train/transcripts.txt", "6892_8912_000000\tzaczął się dzień")
    write(folder / "dev/transcripts.txt", "4800_10003_000000\tprzyszła noc")
    audio(folder / "train/audio/6892/8912", "6892_8912_000000.flac")
    audio(folder / "dev/audio/4800/10003", "4800_10003_000000.flac")
    return {
        "train/audio/6892/8912/6892_8912_000000.flac": ("zaczął się dzień", "6892", "pl"),
        "dev/audio/4800/10003/4800_10003_000000.flac": ("przyszła noc", "4800", "pl"),
    }


def audiofolder(home: Path) -> Expected:
    write(home / "train/metadata.csv", "file_name,transcription", 'a.wav,"one, two"')
    rows = {"file_name": "deep/b.wav", "transcription": "three", "speaker_id": 7}
    write(home / "test/metadata.jsonl", json.dumps(rows))
    audio(home / "train", "a.wav")
    audio(home / "test/deep", "b.wav")
    return {"train/a.wav": ("one, two", None, None), "test/deep/b.wav": ("three", "7", None)}


def gigaspeech(home: Path) -> Expected:
    segments = [
        {"sid": "POD0_S1", "speaker": "N/A", "begin_time": 0.1, "end_time": 0.5,
         "text_tn": "DO YOU KNOW <COMMA> HE SAID <QUESTIONMARK>"},
        {"sid": "POD0_S2", "begin_time": 0.5, "end_time": 0.9, "text_tn": "YES <PERIOD>"},
    ]  # fmt: skip
    entry = {"path": "audio/pod/POD0.wav", "aid": "POD0", "segments": segments}
    whole = {"dataset": "GigaSpeech", "language": "EN", "audios": [entry]}
    write(home / "GigaSpeech.json", json.dumps(whole, indent=1))
    corpus.add(home, 5, name="audio/pod/POD0.wav")
    return {
        "audio/pod/POD0.wav@0.1": ("DO YOU KNOW, HE SAID?", None, "en"),
        "audio/pod/POD0.wav@0.5": ("YES.", None, "en"),
    }


def wenetspeech(home: Path) -> Expected:
    segments = [{"sid": "Y_S0", "begin_time": 0.2, "end_time": 0.7, "text": "今天天气很好"}]
    entry = {"aid": "Y", "path": "audio/B0/Y.wav", "segments": segments, "tags": []}
    write(home / "WenetSpeech.json", json.dumps({"audios": [entry]}, ensure_ascii=False))
    corpus.add(home, 6, name="audio/B0/Y.wav")
    return {"audio/B0/Y.wav@0.2": ("今天天气很好", None, None)}


def voxpopuli(home: Path) -> Expected:
    head = "id\traw_text\tnormalized_text\tspeaker_id\tsplit\tgender"
    write(
        home / "et/asr_train.tsv", head, "2018-et_1\tTere, kolleegid!\ttere kolleegid\t77\ttrain\tm"
    )
    write(home / "et/asr_dev.tsv", head, "2019-et_2\t\taitäh teile\t78\tdev\tf")
    audio(home / "et/2018", "2018-et_1.flac")
    audio(home / "et/2019", "2019-et_2.flac")
    return {
        "et/2018/2018-et_1.flac": ("tere kolleegid", "77", "et"),
        "et/2019/2019-et_2.flac": ("aitäh teile", "78", "et"),
    }


def aishell(home: Path) -> Expected:
    write(home / "transcript/aishell_transcript_v0.8.txt", "BAC009S0002W0122 而 对 楼市 成交")
    audio(home / "wav/train/S0002", "BAC009S0002W0122.wav")
    return {"wav/train/S0002/BAC009S0002W0122.wav": ("而对楼市成交", "S0002", "zh")}


def aishell3(home: Path) -> Expected:
    write(home / "train/content.txt", "SSB00050001.wav\t广 guang3 州 zhou1 女 nv3")
    audio(home / "train/wav/SSB0005", "SSB00050001.wav")
    return {"train/wav/SSB0005/SSB00050001.wav": ("广州女", "SSB0005", "zh")}


def espnet(home: Path) -> Expected:
    data = home / "dump/raw/train"
    write(data / "wav.scp", "u1 dump/raw/org/a.flac", "u2 dump/raw/org/b.flac")
    write(data / "text", "u1 hello there", "u2 good bye")
    write(data / "utt2spk", "u1 s1", "u2 s2")
    audio(home / "dump/raw/org", "a.flac", "b.flac")
    return {"u1": ("hello there", "s1", None), "u2": ("good bye", "s2", None)}


def emilia(home: Path) -> Expected:
    rows: list[dict[str, Any]] = [
        {"id": f"DE_B0_S0_W{n}", "wav": f"DE_B0/DE_B0_S0_W{n}.wav", "text": f"Satz Nummer {n}",
         "duration": 1.0, "speaker": "DE_B0_S0", "language": "de", "dnsmos": 3.2}
        for n in range(2)
    ]  # fmt: skip
    write(home / "DE_B0.jsonl", *map(json.dumps, rows))
    audio(home / "DE_B0", "DE_B0_S0_W0.wav", "DE_B0_S0_W1.wav")
    return {row["wav"]: (row["text"], "DE_B0_S0", "de") for row in rows}


def emilia_pipe(home: Path) -> Expected:
    rows = [
        {"text": f"clip {n}", "start": 0.0, "end": 1.0, "language": "en", "speaker": "SPEAKER_00",
         "dnsmos": 3.0}
        for n in range(2)
    ]  # fmt: skip
    write(home / "talk/talk.json", json.dumps(rows))
    audio(home / "talk", "talk_000000.wav", "talk_000001.wav")
    return {f"talk/talk_00000{n}.wav": (f"clip {n}", "talk_SPEAKER_00", "en") for n in range(2)}


def tsv(home: Path) -> Expected:
    """A plain table; the source is the file."""
    write(
        home / "x.tsv",
        "Wav\tSentence\tSpeaker ID\tnote",
        'a.wav\t"two\nlines, ""quoted"""\tanna\tn',
        "b.wav\tnan\tNone\tn",
    )
    audio(home, "a.wav", "b.wav")
    return {"a.wav": ('two lines, "quoted"', "anna", None), "b.wav": (None, None, None)}


#: Its maker, and the source below the folder, by layout (the first word of the name).
MAKERS: dict[str, tuple[Callable[[Path], Expected], str]] = {
    "ljspeech": (ljspeech, ""),
    "m_ailabs": (m_ailabs, ""),
    "common_voice": (common_voice, ""),
    "vctk": (vctk, ""),
    "librispeech": (librispeech, ""),
    "mls": (mls, "mls_polish"),
    "audiofolder": (audiofolder, ""),
    "gigaspeech": (gigaspeech, ""),
    "wenetspeech": (wenetspeech, ""),
    "voxpopuli": (voxpopuli, ""),
    "aishell": (aishell, ""),
    "aishell 3": (aishell3, ""),
    "espnet": (espnet, "dump/raw/train"),
    "emilia": (emilia, ""),
    "emilia pipe": (emilia_pipe, ""),
    "table": (tsv, "x.tsv"),
}
