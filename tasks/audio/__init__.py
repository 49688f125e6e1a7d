"""Decoding and encoding; only this package decodes recordings.

`open_stream` decodes a recording block by block; a `Clip` is one utterance of a recording;
`encoding` makes the files of a dataset.
"""

from tasks.audio.clip import MATERIALISE_SECONDS, Clip
from tasks.audio.encoding import (
    MP3_FRAME,
    MP3_RATES,
    decode_int16,
    wav_header,
    write_flac_bytes,
    write_mp3_bytes,
    write_wav_bytes,
)
from tasks.audio.kinds import Header, Samples
from tasks.audio.stream import BLOCK_FRAMES, BLOCK_VALUES, Stream, open_stream, probe, read_span
from tasks.recording.container import as_file, digest
from tasks.recording.extensions import KNOWN_EXTENSIONS

__all__ = [
    "BLOCK_FRAMES",
    "BLOCK_VALUES",
    "KNOWN_EXTENSIONS",
    "MATERIALISE_SECONDS",
    "MP3_FRAME",
    "MP3_RATES",
    "Clip",
    "Header",
    "Samples",
    "Stream",
    "as_file",
    "decode_int16",
    "digest",
    "open_stream",
    "probe",
    "read_span",
    "wav_header",
    "write_flac_bytes",
    "write_mp3_bytes",
    "write_wav_bytes",
]
