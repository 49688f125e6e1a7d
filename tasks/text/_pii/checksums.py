"""Whether figures are a card's, an account's or a person's number, by their check digits."""

from __future__ import annotations

import re

#: Length of an IBAN by country (ISO 13616 registry).
_LENGTHS = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 CH21 CR22 CY28
CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23
GL18 GR27 GT28 HR21 HU28 IE22 IL23 IS26 IT27 JO30 KW30 KZ20 LB28
LI21 LT20 LU20 LV21 MC27 MD24 ME22 MK19 MT31 NL18 NO15 PL28 PS29
PT25 QA29 RO24 RS22 SA24 SE24 SI19 SK24 SM27 TN24 TR26 UA29 XK20
"""
IBAN = {entry[:2]: int(entry[2:]) for entry in _LENGTHS.split()}
_DNI = "TRWAGMYFPDXBNJZSQVHLCKE"


def luhn(figures: str) -> bool:
    """ISO/IEC 7812-1, annex B."""
    doubled = (2 * int(f) if place % 2 else int(f) for place, f in enumerate(reversed(figures)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def iban(text: str) -> bool:
    """Letters and figures alone, with a country's length and ISO 7064's check."""
    text = text.upper()
    if len(text) != IBAN.get(text[:2]) or not text.isalnum() or not text.isascii():
        return False
    return int("".join(str(int(c, 36)) for c in text[4:] + text[:4])) % 97 == 1


def person(text: str) -> bool:
    """A number of a person in the USA (Social Security), China, Spain, France, Italy or Brazil."""
    bare = re.sub(r"[\s.-]", "", text).upper()
    if re.fullmatch(r"\d{3}-\d{2}-\d{4}", text):
        return text[:3] not in ("000", "666") and text[0] != "9"
    if re.fullmatch(r"\d{17}[\dX]", bare):
        weighted = sum(int(f) * (1 << (17 - place)) % 11 for place, f in enumerate(bare[:17]))
        return "10X98765432"[weighted % 11] == bare[17] and "1900" <= bare[6:10] <= "2100"
    if re.fullmatch(r"\d{8}[A-Z]", bare):
        return _DNI[int(bare[:8]) % 23] == bare[8]
    if re.fullmatch(r"[12]\d{14}", bare):
        return 97 - int(bare[:13]) % 97 == int(bare[13:]) and 1 <= int(bare[3:5]) <= 12
    if re.fullmatch(r"\d{11}", bare) and re.fullmatch(r"\d{3}\.\d{3}\.\d{3}-\d{2}", text):
        first = sum(int(f) * w for f, w in zip(bare, range(10, 1, -1), strict=False)) * 10 % 11
        second = sum(int(f) * w for f, w in zip(bare, range(11, 1, -1), strict=False)) * 10 % 11
        return bare[9:] == f"{first % 10}{second % 10}"
    return bool(re.fullmatch(r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", bare))
