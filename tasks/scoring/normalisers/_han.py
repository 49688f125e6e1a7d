"""Numbers in Han numerals as figures: 三百二十 -> 320, 二零一六年 -> 2016年, 3万5千 -> 35000.

Consecutive numbers stay separate (九十五九十六 -> 95 96); single figures in a row are one number
(三、九 -> 39).

Figures, because several readings have the same figures (二零一六, 两千零一十六: 2016) while a
reading of figures must be guessed. Numerals inside words become figures on both sides alike
("一起": "1起"); 百, 千, 万, 亿 without a number before them stay ("千万别").
"""

import re
from functools import lru_cache

from .. import _plain

_FIGURE = {c: i for i, c in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "兩": 2,
    "幺": 1,
}
_SMALL = {"十": 10, "百": 100, "千": 1000}
_LARGE = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
MOST = 24  # characters of a number
_ONES, _TENS, _UNITS = "".join(_FIGURE), "".join(_SMALL), "".join(_LARGE)
_RUN = re.compile(rf"(?:[0-9{_ONES}十千{_UNITS}]|百(?!分之))+")
_LARGE_PART = re.compile(
    rf"(?<![0-9{_ONES}{_TENS}])(?P<whole>[0-9{_ONES}{_TENS}]+)点(?P<part>[0-9{_ONES}]+)(?P<unit>[{_UNITS}])"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_PERCENT = re.compile(r"(?<!\d)(\d+(?:点\d+)?)%")
_MINUS = re.compile(r"(?<!\w)[-−](?=\d)")


def signs_read(text: str, minus: str, percent: str) -> str:
    """Signs around figures as they are read out: 1,000 is 1000, 3.5 is 3点5, 20% is 百分之20."""
    text = _POINT.sub("点", _THOUSANDS.sub("", text))
    return _MINUS.sub(minus, _PERCENT.sub(percent, text))


def in_figures(text: str) -> str:
    """Numerals as figures, in a text without punctuation: 一点二亿 is 120000000."""
    text = _RUN.sub(lambda run: _numbers(run[0]), _LARGE_PART.sub(_with_part, text))
    return _plain.figures_joined(text)


def _with_part(match: re.Match[str]) -> str:
    whole, part = _number(match["whole"]), _number(match["part"])
    unit = _LARGE[match["unit"]]
    figures = whole.isdecimal() and part.isdecimal() and len(whole) + len(part) <= MOST
    if not figures or 10 ** len(part) > unit:
        return match[0]
    return str(int(whole + part) * unit // 10 ** len(part))


def _number(run: str) -> str:
    """Figures of a run of figures and numerals; the run itself if it is not a number."""
    if run.isascii() or len(run) > MOST:
        return run
    if not any(c in _SMALL or c in _LARGE for c in run):
        return "".join(str(_FIGURE.get(c, c)) for c in run)
    value = _value(re.findall(r"[0-9]+|.", run))
    return run if value is None else str(value)


def _numbers(run: str) -> str:
    """A run as one number, or as consecutive numbers (二十五二十六: 25 26)."""
    number = _number(run)
    if number != run or run.isascii() or len(run) > MOST:
        return number
    numbers, start = [], 0
    while start < len(run):
        for end in range(len(run), start, -1):
            if end < len(run) and run[end] in _SMALL and run[end - 1] not in _SMALL:
                continue  # a figure belongs to the unit after it
            part = run[start:end]
            if (part.isascii() and part.isdecimal()) or _number(part) != part:
                break
        else:
            return run
        numbers.append(_number(part))
        start = end
    return " ".join(numbers)


def _value(tokens: list[str]) -> int | None:
    """一亿两千万 -> 120000000; a final figure counts tenths of the unit before it: 三万五,
    35000."""
    total = section = 0  # up to the last large unit; after it
    figure: int | None = None
    unit, last_large = 10**4, 10**16  # of the last small and large unit
    after_zero = False
    for token in tokens:
        if token in _SMALL:
            if _SMALL[token] >= unit or (figure is None and (token != "十" or section)):
                return None
            unit = _SMALL[token]
            section += (1 if figure is None else figure) * unit
            figure, after_zero = None, False
        elif token in _LARGE:
            section += figure or 0
            large = _LARGE[token]
            if not section and not total:
                return None
            total = (total + section) * large if large > last_large else total + section * large
            section, figure, unit, after_zero = 0, None, 10**4, False
            last_large = large
        elif figure is not None:  # 二三十, 五六百
            return None
        elif token in _FIGURE and not _FIGURE[token] and (section or total):
            after_zero = True
        else:
            figure = _FIGURE[token] if token in _FIGURE else int(token)
    if figure is not None:
        last = unit if unit < 10**4 else last_large
        tenths = not after_zero and tokens[-1] in _FIGURE and 100 <= last < 10**16
        section += figure * (last // 10 if tenths else 1)
    return total + section


@lru_cache(maxsize=1)
def _simplified() -> dict[int, str]:
    from importlib.resources import files

    lines = files("opencc").joinpath("dictionary", "TSCharacters.txt").read_text("utf-8")
    pairs = (line.split()[:2] for line in lines.splitlines() if line.strip())
    return {ord(old): new for old, new in pairs}


def chinese(text: str) -> str:
    """Mandarin and Cantonese: characters are simplified one by one, as recognisers write them at
    random. The table is OpenCC's (`opencc-python-reimplemented`); characters that only a phrase
    disambiguates (乾坤) are simplified too, on both sides alike."""
    text = _plain.compatible(text).translate(_simplified())
    return in_figures(_plain.folded(signs_read(text, "负", r"百分之\1"), "zh"))


def japanese(text: str) -> str:
    """Characters stay, since Japanese has its own forms."""
    text = _plain.compatible(text).replace("ゼロ", "零")
    return in_figures(_plain.folded(signs_read(text, "マイナス", r"\1パーセント"), "ja"))
