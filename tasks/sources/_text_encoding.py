"""The encoding of text files: recognised where certain, else a setting; never guessed. A byte order
mark, valid UTF-8, and UTF-16 of mostly ASCII without a mark (every other byte is zero) are certain.
Encodings with one byte a letter (CP1251) or two (GBK) fit almost any bytes."""

import codecs

from ..base.errors import ItemError
from ..recording.names import display_text

BAD_TEXT = "bad_text"
#: Encodings to show in the message for a text that is not UTF-8, with how it would read.
CANDIDATES = ("gb18030", "big5", "shift_jis", "euc_kr", "cp1251", "cp1252")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with UTF-16's mark
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SHOWN = 12  # characters of each reading in a message


def decode(data: bytes, encoding: str | None = None) -> tuple[str, str]:
    """(text without a byte order mark, name of its encoding). `encoding`: from the settings; a mark
    in the bytes wins. ItemError `bad_text` if it is uncertain, or the bytes do not fit."""
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    name = marked or encoding
    if name is None and 0 in data:
        return _wide(data)
    try:
        return data.decode(name or "utf-8"), name or "utf-8"
    except UnicodeDecodeError as error:
        if name is None:
            raise ItemError(BAD_TEXT, _uncertain(data, error.start)) from None
        why = f"byte {error.start:,} does not fit {name}"
    raise ItemError(BAD_TEXT, f"{why}; write it as UTF-8, or set the source's encoding")


def checked(encoding: str) -> str:
    """The name of a text encoding, as Python spells it; ValueError if there is no such."""
    try:
        info = codecs.lookup(encoding)
    except (LookupError, ValueError):
        raise ValueError(
            f"there is no encoding {encoding!r}; name one such as gbk or cp1251"
        ) from None
    try:
        b"a".decode(info.name)
    except LookupError:  # hex, rot13, …
        raise ValueError(
            f"{encoding!r} is not a text encoding; name one such as gbk or cp1251"
        ) from None
    return info.name


def _wide(data: bytes) -> tuple[str, str]:
    """UTF-16 without a mark, by zeros at every other byte, which no other encoding has."""
    zeros = data[0::2].count(0), data[1::2].count(0)
    name = "utf-16-le" if zeros[1] else "utf-16-be"
    if len(data) % 2 == 0 and 0 in zeros and 4 * max(zeros) >= len(data):
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            text = "\0"
        if "\0" not in text:
            return text, name
    raise ItemError(
        BAD_TEXT, "it holds NUL bytes: not text, or UTF-16, which the source must state"
    )


def _uncertain(data: bytes, start: int) -> str:
    """Why the text is not read, with how it would read in other encodings."""
    beginning = max(data.rfind(b"\n", 0, start) + 1, start - 8)
    readings = []
    for name in CANDIDATES:
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            continue
        shown = display_text(data[beginning:].decode(name, "replace").strip()[:_SHOWN])
        if shown and text:
            readings.append(f"{name} ({shown!r})")
    fits = f", it fits {', '.join(readings)}" if readings else ""
    return (
        f"it is not UTF-8 (byte {start:,}){fits}; set the source's `encoding`, "
        "or write the text as UTF-8"
    )
