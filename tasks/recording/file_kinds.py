"""Tells what a file is: audio by its extension, or by its first bytes something that no decoder
opens. Deliberately missing among the extensions: those of `RATELESS`, and `ts` (more often
TypeScript than a transport stream; in folders its first bytes decide)."""

import re
from collections.abc import Callable

from ..base.errors import ItemError
from ..storage import regular, urls

_LIBSNDFILE = (
    "wav wave w64 rf64 bwf flac mp3 mp2 mpga ogg oga opus spx aif aiff aifc au snd sph nist caf "
    "voc gsm ircam"
)
_FFMPEG_AUDIO = "m4a m4b aac adts wma amr awb ac3 eac3 ape wv tta mka dts ra g722"
_FFMPEG_VIDEO = "mp4 m4v webm mkv mov avi flv wmv asf 3gp 3g2 mpg mpeg mts m2ts vob ogv rm rmvb"

#: Lower case, without the dot. Video files are read for their sound.
KNOWN_EXTENSIONS = frozenset(f"{_LIBSNDFILE} {_FFMPEG_AUDIO} {_FFMPEG_VIDEO}".split())

#: Files without a header, of one rate and coding: only their name tells them. Extension to FFmpeg's
#: name of the format.
BY_NAME = {"g722": "g722"}
#: Files without a header whose rate or coding may be any: they cannot be read.
_RATELESS = "raw pcm sln sln12 sln16 sln24 sln32 sln44 sln48 ul ulaw mulaw al alaw vox g726 g729"
RATELESS = frozenset(_RATELESS.split())

#: The usual coding of some of these, by the first letter of the extension: FFmpeg's name, and ours.
_CODINGS = {"u": ("mulaw", "µ-law"), "m": ("mulaw", "µ-law"), "a": ("alaw", "A-law")}

HEAD = 4096  # bytes that identify a file
_PACKET, _SYNC = 188, 0x47  # of an MPEG transport stream: bytes, and the first byte
LEAST = 12  # bytes; every format's header is longer
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
_ARCHIVES = {b"PK\x03\x04": "ZIP", b"7z\xbc\xaf\x27\x1c": "7-Zip", b"Rar!\x1a\x07": "RAR"}
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|head|\?xml|error)", re.IGNORECASE)


def known(name: str) -> bool:
    """Whether a file's name ends in a known extension, in any case: `A.WAV`, `b.tar/c.flac`."""
    stem, dot, extension = name.rpartition(".")
    return bool(dot and stem) and extension.lower() in KNOWN_EXTENSIONS


def headerless(name: str) -> str | None:
    """The extension, in lower case, of a name whose file has no header; None for any other."""
    extension = name.rpartition(".")[2].lower()
    return extension if extension in BY_NAME or extension in RATELESS else None


def rateless(extension: str | None) -> str | None:
    """What to do about a file of an extension of RATELESS; None for any other."""
    if extension is None or extension not in RATELESS:
        return None
    kind, name = _CODINGS.get(extension[0], ("s16le", "16-bit PCM"))
    return (
        f"a .{extension} file has no header, so nothing states its sample rate and coding; convert "
        f"it to WAV, such as with `ffmpeg -f {kind} -ar 8000 -i a.{extension} a.wav` if it is "
        f"{name} of 8 kHz"
    )


def compression(head: bytes) -> str | None:
    """Name of the compression by a file's first bytes, or None."""
    return next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)


def packing(head: bytes) -> str | None:
    """How a file is packed, and what to do about it; None if it is not."""
    if packed := compression(head):
        return f"compressed with {packed}; decompress it first"
    for magic, name in _ARCHIVES.items():
        if head.startswith(magic):
            return f"a {name} archive; unpack it first"
    return None


def in_words(head: bytes) -> str | None:
    """What a file is, if not audio, by its first HEAD bytes (at least one), and what to do about
    it; None if they do not show it."""
    if len(head) < LEAST:
        return f"it has {len(head)} byte{'s' * (len(head) > 1)}, too few for audio; get it again"
    if packed := packing(head):
        return f"it is {packed}"
    if head.startswith(b"version https://git-lfs.github.com/"):
        return "it is a pointer of Git LFS, not the file itself; run git lfs pull"
    if _PAGE.match(head):
        return "it is a web page, as a failed download leaves it; download the file again"
    if not any(head):
        return f"its first {len(head)} bytes are 0, as a broken copy leaves them; copy it again"
    if _is_text(head):
        return "it is text, not audio; take it out of the source or get the recording itself"
    return None


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # a later error is a character cut at the end
            return False
        text = head[: error.start].decode()
    return all(char.isprintable() or char in "\t\n\r\f\ufeff" for char in text)


#: (path or URL, most bytes) -> the first bytes of a file. Raises OSError or ItemError.
ReadFile = Callable[[str, int], bytes]


def first_bytes(path: str, most: int, opener: regular.Opener = regular.read) -> bytes:
    """All bytes of a file or object, or the first `most`."""
    if urls.is_url(path):
        with urls.streamed(path) as file:
            return file.read(most)
    with open(path, "rb", opener=opener) as file:
        return file.read(most)


def is_recording(name: str, path: str, read: ReadFile = first_bytes) -> bool:
    """Whether a file in a folder or an archive is a recording: by its ending, and for `.ts`, which
    TypeScript has too, by its first packets. `path`: where the file `name` is, as `read` takes it.
    A `.ts` that cannot be read counts as one, so that its fault is reported."""
    if known(name):
        return True
    if not name.lower().endswith(".ts"):
        return False
    try:
        head = read(path, 4 * _PACKET)
        return len(head) >= _PACKET and set(head[: 3 * _PACKET : _PACKET]) == {_SYNC}
    except regular.NotAFile:
        return False
    except (OSError, ItemError):
        return True
