"""E-mail addresses, written and said: `john.smith@gmail.com`, `john dot smith at gmail dot com`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tasks.scoring import UNSPACED

AROUND = 90  # characters before and after the at sign that are looked at
_STRONG = (
    "klammeraffe|arobase|arobas|arroba|chiocciola|apenstaartje|apestaart|małpa|kuyruklu a|"
    "собака|собачка|艾特|圈a|アットマーク|アット"
)
_AT = re.compile(
    rf"\s?[@＠]\s?|\s*[(\[]\s?at\s?[)\]]\s*|\s*(?:{_STRONG})\s*|\s+(?:at|ät|et)\s+", re.IGNORECASE
)
_DOT = (
    r"(?:\.|\s+(?:dot|punkt|point|punto|ponto|punt|точка|kropka|nokta)\s+|"
    r"\s*(?:点|點|ドット)\s*)"
)
_JOIN = (
    r"(?:[-_+]|\s+(?:underscore|unterstrich|bindestrich|dash|hyphen|minus|tiret|trattino|"
    r"guion bajo|guion|streepje|подчёркивание|дефис)\s+|(?<=\b\w)\s(?=\w\b)|"
    r"\s*(?:下划线|アンダーバー)\s*)"
)
_ATOM = rf"[^\W_{UNSPACED}]{{1,40}}"
_LOCAL = re.compile(
    rf"(?:(?<=[{UNSPACED}])|(?<![\w.+-])){_ATOM}(?:(?:{_DOT}|{_JOIN}){_ATOM}){{0,9}}$",
    re.IGNORECASE,
)
_TLD = (
    "com|org|net|edu|gov|info|io|biz|eu|de|at|ch|fr|be|es|it|pt|br|nl|ru|ua|by|uk|us|ca|au|in|cn|"
    "hk|tw|jp|kr|pl|mx|ar|cl|tr|gr|se|no|dk|fi|cz|ro|hu|il|app|dev|ком|ру|рф|нет"
)
_DOMAIN = re.compile(
    rf"{_ATOM}(?:(?:{_DOT}|{_JOIN}){_ATOM}){{0,5}}?{_DOT}(?:{_TLD})(?:{_DOT}(?:{_TLD}))?"
    rf"(?=$|[^\w]|[{UNSPACED}])",
    re.IGNORECASE,
)
#: "look at gmail dot com" is rare; "at" before other names is mostly a place.
_PROVIDER = re.compile(
    r"(?:gmail|googlemail|yahoo|hotmail|outlook|gmx|web|icloud|proton|protonmail|aol|live|msn|qq|"
    r"163|126|mail|yandex|яндекс|orange|free|wanadoo|libero|virgilio|terra|uol|bol|ziggo|kpn)\b",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"mail|correo|courriel|почт|邮|郵|メール|address|adresse|write|reach", re.IGNORECASE
)


def spans(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each address. Linear: a window around each at sign is looked at."""
    for sign in _AT.finditer(text):
        low = max(sign.start() - AROUND, 0)
        local = _LOCAL.search(text[low : sign.start()])
        domain = _DOMAIN.match(text[sign.end() : sign.end() + AROUND])
        if local is None or domain is None:
            continue
        plain = sign[0].strip().casefold() in ("at", "ät", "et")
        if plain and not (
            _PROVIDER.match(domain[0])
            or not local[0].isalpha()
            or _CUE.search(text[max(low, sign.start() - 50) : sign.start()])
        ):
            continue
        yield low + local.start(), sign.end() + domain.end()
