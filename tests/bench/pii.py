"""Precision and recall of the rule `pii` on synthetic texts in ten languages.

    python -m tests.bench.pii [--hard]

Numbers are drawn with valid check digits and plans (`phonenumbers`' example numbers), and put into
sentences as they are written, and as they are said figure by figure. Precision counts hits that
cover nothing of what was put there. Ordinary texts have years, prices, dates, times, large numbers
and counts. Texts of recognisers have errors, which these have not; `--hard` measures those, and
other ways to say a number: how often all of it is hidden, and how often nothing is.
"""

import random
import sys
from collections import defaultdict
from collections.abc import Iterator

from uttermill.tasks.scoring import languages
from uttermill.tasks.scoring.normalisers import figures_to_words
from uttermill.tasks.text import _personal_data

EACH = 40  # texts of a language, a kind and a form
WORDS = {  # at sign and dot as they are said; what leads to a number; a sentence around it
    "en": ("at", "dot", "call me at", "please call {} today"),
    "de": ("at", "punkt", "meine Nummer ist", "also {} bitte"),
    "fr": ("arobase", "point", "mon numéro est le", "voilà {} merci"),
    "es": ("arroba", "punto", "mi número es el", "pues {} gracias"),
    "it": ("chiocciola", "punto", "il mio numero è", "allora {} grazie"),
    "pt": ("arroba", "ponto", "o meu número é", "então {} obrigado"),
    "nl": ("apenstaartje", "punt", "mijn nummer is", "dus {} bedankt"),
    "ru": ("собака", "точка", "мой номер", "вот {} спасибо"),
    "zh": ("艾特", "点", "我的电话是", "好的{}谢谢"),
    "ja": ("アットマーク", "ドット", "電話番号は", "はい{}です"),
}
DOMAINS = ("gmail", "example", "outlook", "mueller-bau")
ORDINARY = (
    "in {year} we paid {price} for it",
    "{year} - {year2}: {large} people",
    "on {date} at {time}",
    "chapter {small}, page {small}, {small} of {small}",
    "version 3.{small}.{small}, {large} and {large}",
    "{digits}",
)


def drawn(rng: random.Random, count: int) -> str:
    return "".join(str(rng.randrange(10)) for _ in range(count))


def card(rng: random.Random) -> str:
    while not _personal_data.luhn(number := f"4{drawn(rng, 15)}"):
        pass
    return " ".join(number[place : place + 4] for place in range(0, 16, 4))


def account(rng: random.Random) -> str:
    while not _personal_data.iban(number := f"DE{drawn(rng, 20)}"):
        pass
    return " ".join(number[place : place + 4] for place in range(0, 22, 4))


def phone(rng: random.Random, language: str) -> str:
    library = _personal_data.phone_plans()
    region = languages.of(language).countries[0]
    kind = rng.choice([library.PhoneNumberType.MOBILE, library.PhoneNumberType.FIXED_LINE])
    example = library.example_number_for_type(region, kind)
    while True:
        whole = str(example.national_number)
        example.national_number = int(whole[:-4] + drawn(rng, 4))
        if library.is_valid_number(example):
            return str(
                library.format_number(example, rng.choice([0, library.PhoneNumberFormat.NATIONAL]))
                if rng.random() < 0.5
                else library.format_number(example, library.PhoneNumberFormat.NATIONAL)
            )


def said(text: str, language: str) -> str:
    """Figure by figure."""
    say = figures_to_words(language)
    words = [say(char).strip() for char in text if char.isdecimal()]
    return ("" if language in ("zh", "ja") else " ").join(words)


def texts(language: str, rng: random.Random) -> Iterator[tuple[str, str, str, int, int]]:
    """(kind, form, text, start, end)."""
    at, dot, lead, around = WORDS[language]
    blank = "" if language in ("zh", "ja") else " "
    for _ in range(EACH):
        name, domain = rng.choice(["anna.berg", "j.smith", "info", "mark7"]), rng.choice(DOMAINS)
        local = name.replace(".", f"{blank}{dot}{blank}")
        written = f"{name}@{domain}.com"
        number = phone(rng, language)
        values = [
            ("email", "written", written),
            ("email", "said", f"{local}{blank}{at}{blank}{domain}{blank}{dot}{blank}com"),
            ("phone", "written", number),
            ("phone", "said", said(number, language)),
            ("card", "written", written := card(rng)),
            ("card", "said", said(written, language)),
            ("account", "written", account(rng)),
        ]
        for kind, form, value in values:
            whole = f"{lead}{blank}{value}" if kind == "phone" else value
            text = around.format(whole)
            start = text.index(value)
            yield kind, form, text, start, start + len(value)


def ordinary(language: str, rng: random.Random) -> Iterator[str]:
    say = figures_to_words(language)
    for pattern in ORDINARY * EACH:
        year, small = str(rng.randrange(1900, 2030)), str(rng.randrange(1, 99))
        text = pattern.format(
            year=year,
            year2=str(rng.randrange(1900, 2030)),
            price=rng.choice(["$1,250", "1.250,50 €", "£12", "999 euros", "3000元"]),
            large=rng.choice([f"{rng.randrange(10**9):,}", str(rng.randrange(10**7))]),
            date=rng.choice([f"{year}-10-15", f"15.10.{year}", f"10/15/{year}"]),
            time=rng.choice(["10:30", "18h45", "7.15"]),
            small=small,
            digits=" ".join(drawn(rng, rng.randrange(2, 6))),
        )
        yield text
        yield say(text)


#: A filler between figures; a name and an address; a date of birth.
ODD = {
    "en": ("um", "my name is {} and i live at 12 market street", "i was born on may 4 1987"),
    "de": ("äh", "ich heiße {} und wohne in der Marktstraße 12", "ich bin am 4. Mai 1987 geboren"),
    "fr": ("euh", "je m'appelle {} et j'habite 12 rue du Marché", "je suis né le 4 mai 1987"),
    "es": ("eh", "me llamo {} y vivo en la calle Mayor 12", "nací el 4 de mayo de 1987"),
    "it": ("ehm", "mi chiamo {} e abito in via Roma 12", "sono nato il 4 maggio 1987"),
    "pt": ("hum", "chamo-me {} e moro na rua Direita 12", "nasci a 4 de maio de 1987"),
    "nl": ("eh", "ik heet {} en woon in de Marktstraat 12", "ik ben geboren op 4 mei 1987"),
    "ru": ("э", "меня зовут {}, живу на улице Мира 12", "я родился 4 мая 1987 года"),
    "zh": ("嗯", "我叫{}住在市场街十二号", "我出生于一九八七年五月四日"),
    "ja": ("えーと", "{}です市場通り12番地に住んでいます", "1987年5月4日に生まれました"),
}


def hard(language: str, rng: random.Random) -> Iterator[tuple[str, str, int, int]]:
    """(what is odd, text, start, end)."""
    at, dot, lead, around = WORDS[language]
    filler, named, born = ODD[language]
    blank = "" if language in ("zh", "ja") else " "
    say = figures_to_words(language)
    for _ in range(EACH):
        number = "".join(c for c in phone(rng, language) if c.isdecimal())
        spoken = [say(char).strip() for char in number]
        pairs = [say(number[n : n + 2]).strip() for n in range(0, len(number), 2)]
        middle = len(spoken) // 2
        other = lead.split()[-1] if blank else lead[-1]
        misheard = [*spoken[:middle], other, *spoken[middle + 1 :]]
        mail = f"{blank.join('anna')}{blank}{at}{blank}example{blank}{dot}{blank}"
        announced = around.format(f"{lead}{blank}{{}}")
        for what, text, value in (
            ("phone in pairs", announced, blank.join(pairs)),
            ("phone with a filler", announced, blank.join([*spoken[:4], filler, *spoken[4:]])),
            ("phone with a figure misheard", announced, blank.join(misheard)),
            ("phone in 2 clips", announced, blank.join(spoken[:middle])),
            ("phone not announced", around, blank.join(spoken)),
            ("e-mail spelled", around, f"{mail}com"),
            ("e-mail of a rare domain", around, f"{mail.replace(blank * 2, blank)}museum"),
            ("name and street", named, "Anna Berg"),
            ("date of birth", born + "{}", ""),
        ):
            whole = text.format(value)
            start = whole.index(value) if value else 0
            yield what, whole, start, start + len(value) if value else len(whole)


def missed() -> Iterator[dict[str, object]]:
    """Shares of which all is hidden, and of which nothing is, by what is odd."""
    for language in WORDS:
        shares: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
        for what, text, start, end in hard(language, random.Random(language)):
            met = [
                hit
                for hit in _personal_data.hits(text, language)
                if hit.start < end > start < hit.end
            ]
            figures = {
                n for n in range(start, end)
                if text[n].isalnum() and not any(hit.start <= n < hit.end for hit in met)
            }  # fmt: skip
            shares[what].append((bool(met) and not figures, not met))
        yield {
            "language": language,
            **{
                what: " / ".join(
                    f"{sum(column) / len(pairs):.0%}" for column in zip(*pairs, strict=True)
                )
                for what, pairs in shares.items()
            },
        }


def measured() -> Iterator[dict[str, object]]:
    for language in WORDS:
        rng = random.Random(language)
        put, met, wrong = (defaultdict[str, int](int) for _ in range(3))
        for kind, form, text, start, end in texts(language, rng):
            put[f"{kind} {form}"] += 1
            right = False
            for hit in _personal_data.hits(text, language):
                if hit.start < end and start < hit.end:
                    right |= hit.kind == kind and hit.start <= start and hit.end >= end
                else:
                    wrong["placed"] += 1
            met[f"{kind} {form}"] += right
        plain = [*ordinary(language, rng)]
        false = sum(bool(_personal_data.hits(text, language)) for text in plain)
        total = sum(met.values()) + wrong["placed"] + false
        yield {
            "language": language,
            **{name: round(met[name] / put[name], 3) for name in put},
            "precision": round(sum(met.values()) / total, 3) if total else None,
            "ordinary": len(plain),
            "false": false,
        }


def main() -> None:
    rows = [*(missed() if "--hard" in sys.argv[1:] else measured())]
    names = [*rows[0]]
    print("| " + " | ".join(names) + " |")
    print("|---" * len(names) + "|")
    for row in rows:
        print("| " + " | ".join(str(row[name]) for name in names) + " |")


if __name__ == "__main__":
    main()
