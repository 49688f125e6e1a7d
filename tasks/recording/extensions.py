"""File extensions that sources treat as audio. The only list; it imports no decoder.

Left out on purpose: `raw`, `pcm` and `vox` (no header, so the rate is unknown) and `ts` (more
often TypeScript than a transport stream).
"""

from __future__ import annotations

_LIBSNDFILE = (
    "wav wave w64 rf64 bwf flac mp3 mp2 mpga ogg oga opus spx aif aiff aifc au snd sph nist caf "
    "voc gsm ircam"
)
_FFMPEG_AUDIO = "m4a m4b aac adts wma amr awb ac3 eac3 ape wv tta mka dts ra"
_FFMPEG_VIDEO = "mp4 m4v webm mkv mov avi flv wmv asf 3gp 3g2 mpg mpeg mts m2ts vob ogv rm rmvb"

#: Lower case, without the dot. Of video files, the sound track is read.
KNOWN_EXTENSIONS = frozenset(f"{_LIBSNDFILE} {_FFMPEG_AUDIO} {_FFMPEG_VIDEO}".split())


def known(name: str) -> bool:
    """Whether a file's name ends in a known extension, in any case: `A.WAV`, `b.tar/c.flac`."""
    stem, dot, extension = name.rpartition(".")
    return bool(dot and stem) and extension.lower() in KNOWN_EXTENSIONS
