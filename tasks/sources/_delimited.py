"""Tables in text: rows of cells separated by tabs, commas, semicolons or pipes, read one by one.
A cell in quotes may hold the separator and line ends; any other quote is an ordinary character, so
that a stray one breaks nothing."""

import io
import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ..base.errors import ItemError
from ..recording.file_kinds import known, packing
from ..recording.names import display_text, is_utf8
from ..storage import bounds, urls
from . import _columns, _text_encoding
from ._lists import refusal
from ._paths import list_file

SEPARATORS = {"\t": "tabs", "|": "pipes", ";": "semicolons", ",": "commas"}
HEAD_BYTES = 1 << 20  # in which the encoding is recognised
HEAD_LINES = 200  # in which the separator is
#: Bytes of the lines held to find the end of a quoted cell, and overhead of each line.
MOST_AHEAD, LINE_BYTES = 256 << 20, 160

Lines = Iterator[tuple[int, str | None]]
#: The cells of a row by the names of their columns, or what is wrong with the row.
Record = dict[str, object] | ValueError


@dataclass(frozen=True, slots=True)
class Form:
    """How a table is written. `names`: of its columns; `header`: they are its first row; `widths`:
    numbers of cells that a row may have; `quotes`: cells may be quoted; `marked`: its first line
    names the separator for Excel."""

    path: str
    encoding: str
    separator: str | None  # None: one cell a row; " ": the first run of spaces or tabs
    names: tuple[str, ...]
    header: bool
    widths: frozenset[int]
    quotes: bool = True
    marked: bool = False


#: `sep=;`, by which Excel knows the separator.
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


def lines(path: str, encoding: str) -> Lines:
    """Numbered lines, as `urls.numbered` gives them."""
    if encoding in ("utf-8", "utf-8-sig"):
        yield from urls.lines(path)
        return
    errors = "replace" if encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"
    most = bounds.MAX_LINE_BYTES
    with (
        urls.streamed(path) as raw,
        io.TextIOWrapper(raw, encoding, errors=errors, newline="\n") as file,
    ):
        number = 0
        while line := file.readline(most + 1):
            number += 1
            if len(line) > most and not line.endswith("\n"):
                while line and not line.endswith("\n"):
                    line = file.readline(most)
                yield number, None
            elif line.strip():
                yield number, line.removeprefix("\ufeff").rstrip("\r\n")


def encoding_of(path: str, stated: str | None) -> str:
    """The encoding of a table. ConfigError if it is packed, binary or uncertain; a few bytes that
    are not UTF-8 fail only their rows."""
    try:
        with urls.streamed(path) as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise refusal(path, f"cannot be read ({error.strerror or 'it cannot be read'})") from None
    if packed := packing(head):
        raise refusal(path, f"is {packed}")
    if len(head) == HEAD_BYTES:  # a whole number of letters, whatever their size
        head = head[: head.rfind(b"\n") + 1] or head
        head = head[: len(head) - len(head) % 4] if b"\0" in head else head
    try:
        return _text_encoding.decode(head, stated)[1]
    except ItemError as error:
        wide = [line for line in head.split(b"\n") if not line.isascii()]
        fitting = sum(is_utf8(line.decode("utf-8", "surrogateescape")) for line in wide)
        if stated or b"\0" in head or 2 * fitting <= len(wide):
            raise refusal(path, f"cannot be read: {error.detail}") from None
        return "utf-8"


def form_of(
    path: str, separator: str | None = None, header: bool | None = None, encoding: str | None = None
) -> Form:
    """How a table is written, by its first rows and the settings. ConfigError if it cannot be read,
    or its columns cannot be told apart."""
    path = list_file(path)
    encoding = encoding_of(path, encoding)
    head = [line for _, line in islice(lines(path, encoding), HEAD_LINES) if line is not None]
    if not head:
        raise refusal(path, "is empty")
    if "\r" in head[0].rstrip("\r") and len(head) == 1:
        raise refusal(path, "ends its lines with CR alone; save it with LF")
    mark = _SEPARATOR.fullmatch(head[0]) if len(head) > 1 else None
    head = head[1:] if mark else head
    separator = separator or (mark[1] if mark else None)
    chosen = _separator(path, head) if separator is None else separator
    rows = [_cells(line, chosen) for line in head]
    if header is None:
        header = not any(known(cell.strip()) for cell in rows[0])
    names: list[str] = []
    if header:
        for number, cell in enumerate(rows[0], 1):
            name = display_text(cell.strip())
            names.append(f"{name}_{number}" if not name or name in names else name)
    else:
        width = Counter(map(len, rows)).most_common(1)[0][0]
        names += map(str, range(1, width + 1))
    widths = frozenset((len(names),))
    return Form(path, encoding, chosen, (*names,), header, widths, marked=mark is not None)


def _separator(path: str, head: list[str]) -> str | None:
    """The separator of columns; None if there is only one column."""
    best: tuple[bool, float, str] = (False, 0.0, "")
    for candidate in SEPARATORS:
        rows = [_cells(line, candidate) for line in head]
        width = len(rows[0])
        if width < 2:
            continue
        audio = _columns.first("audio", rows[0]) is not None or any(map(known, rows[0]))
        alike = sum(len(row) == width for row in rows) / len(rows)
        if (audio, alike) > best[:2]:
            best = audio, alike, candidate
    if best[0] or 2 * best[1] >= 1:
        return best[2]
    if len(head) > 1 and best[2]:
        raise refusal(
            path,
            ": its rows have different numbers of columns, with any separator; set `separator`",
        )
    return None


def _cells(line: str, separator: str | None, quotes: bool = True) -> list[str]:
    """The cells of a line that is a whole row."""
    if separator is None:
        return [line]
    if separator == " ":
        return line.split(None, 1)
    return _parsed(line, separator, True)[0] if quotes else line.split(separator)


#: The text up to the closing quote; a doubled quote belongs to it.
_INSIDE = re.compile(r'[^"]*+(?:""[^"]*+)*+')


def _parsed(line: str, separator: str, whole: bool) -> tuple[list[str], str | None]:
    """The cells of a line, and the beginning of a last cell whose quotes are still open; `whole`:
    an unclosed quote is an ordinary character."""
    if '"' not in line:
        return line.split(separator), None
    cells: list[str] = []
    position = 0
    while True:
        if line.startswith('"', position):
            end = _INSIDE.match(line, position + 1).end()  # type: ignore[union-attr] # matches anything
            if end == len(line) and not whole:
                return cells, line[position + 1 :]
            if line.startswith('"', end) and (
                end + 1 == len(line) or line.startswith(separator, end + 1)
            ):
                cells.append(line[position + 1 : end].replace('""', '"'))
                position = end + 1
                if position == len(line):
                    return cells, None
                position += len(separator)
                continue
        end = line.find(separator, position)
        if end < 0:
            cells.append(line[position:])
            return cells, None
        cells.append(line[position:end])
        position = end + len(separator)


def records(form: Form) -> Iterator[tuple[int, Record]]:
    """Numbered rows by the names of their columns; a bad row is an error in its place."""
    ahead: deque[tuple[int, str | None]] = deque()
    source = lines(form.path, form.encoding)
    if form.marked:
        next(source, None)
    skip, width = form.header, len(form.names)
    while following := ahead.popleft() if ahead else next(source, None):
        number, line = following
        if line is None:
            cells: list[str] = []
        elif form.quotes and form.separator in SEPARATORS:
            cells = _row(form, form.separator, line, ahead, source)
        else:
            cells = _cells(line, form.separator, form.quotes)
        if skip:
            skip = False
        elif line is None:
            most = bounds.megabytes(bounds.MAX_LINE_BYTES)
            yield number, ValueError(f"the line is longer than {most}")
        elif len(cells) in form.widths or (len(cells) > width and not any(cells[width:])):
            yield number, dict(zip(form.names, cells, strict=False))
        else:
            yield number, ValueError(_width(form, len(cells)))


def _row(
    form: Form, separator: str, line: str, ahead: deque[tuple[int, str | None]], source: Lines
) -> list[str]:
    """The cells of the row that begins with `line`; consumes its further lines."""
    cells, left_open = _parsed(line, separator, False)
    used = size = 0
    parts = [left_open or ""]
    while left_open is not None:
        if used == len(ahead):
            if (following := next(source, None)) is None:
                break
            ahead.append(following)
        more = ahead[used][1]
        used += 1
        size += len(more or "") + LINE_BYTES
        if more is None or size > MOST_AHEAD or _is_row(form, separator, more):
            break
        end = _INSIDE.match(more).end()  # type: ignore[union-attr] # matches anything
        parts.append(more[:end])
        if end == len(more):
            continue
        rest = more[end + 1 :]
        if rest and not rest.startswith(separator):
            break
        cells.append("\n".join(parts).replace('""', '"'))
        left_open = None
        if rest:
            others, left_open = _parsed(rest.removeprefix(separator), separator, False)
            cells += others
            parts = [left_open or ""]
    if left_open is not None or (used and len(cells) not in form.widths):
        return _cells(line, separator)
    for _ in range(used):
        ahead.popleft()
    return cells


def _is_row(form: Form, separator: str, line: str) -> bool:
    """Whether a line after an open quote is a row of its own, and the quote a stray one."""
    cells = _cells(line, separator)
    if len(cells) not in form.widths:
        return False
    return any(known(cell.strip()) for cell in cells) or separator in "\t|"


def _width(form: Form, count: int) -> str:
    most = max(form.widths)
    cells = "1 cell" if count == 1 else f"{count} cells"
    what = f"the header has {most}" if form.header else f"most rows have {most}"
    text = f"the row has {cells}, where {what}"
    if count > most and form.separator in SEPARATORS:
        text += f"; put a text that holds {SEPARATORS[form.separator]} into quotes"
    return text
