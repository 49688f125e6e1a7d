"""What people may say for units, times, ordinals, fractions and sums of money: "5 km", "9:30",
"3. Mai", "1/2", "$3.50".

`readings` tries each form and takes the one that is closest to the other text. So a form never
hides a difference in the figures, and "5 m" beside "five minutes" stays one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from .normalisers import base, figures_read, ordinal, ordinals


class Forms(NamedTuple):
    """A part of a text, and other phrases for it."""

    start: int
    end: int
    phrases: tuple[str, ...]


#: By language: unit, names of one and of several. Several names of a unit: `/`.
_UNITS = {
    "en": """
        km kilometer kilometers; m meter meters; cm centimeter centimeters
        mm millimeter millimeters; kg kilogram/kilo kilograms/kilos; g gram grams
        mg milligram milligrams; t ton tons/tonnes
        l liter liters; ml milliliter milliliters; ft foot feet; in inch inches; mi mile miles
        lb pound pounds; lbs pound pounds; oz ounce ounces; h hour hours; hrs hour hours
        min minute minutes; mins minute minutes; s second seconds; sec second seconds
        secs second seconds; ms millisecond milliseconds
        mph mile_per_hour/mile_an_hour miles_per_hour/miles_an_hour
        km/h kilometer_per_hour/kilometer_an_hour kilometers_per_hour/kilometers_an_hour
        °C degree_celsius degrees_celsius/degrees
        °F degree_fahrenheit degrees_fahrenheit/degrees; ° degree degrees; Hz hertz hertz
        kHz kilohertz kilohertz; kW kilowatt kilowatts; kWh kilowatt_hour kilowatt_hours
        MB megabyte megabytes; GB gigabyte gigabytes; ha hectare hectares
        m2 square_meter square_meters; km2 square_kilometer square_kilometers""",
    "de": """
        km Kilometer Kilometer; m Meter Meter; cm Zentimeter Zentimeter; mm Millimeter Millimeter
        kg Kilogramm/Kilo Kilogramm/Kilo; g Gramm Gramm; mg Milligramm Milligramm; t Tonne Tonnen
        l Liter Liter; ml Milliliter Milliliter; h Stunde Stunden; min Minute Minuten
        Min. Minute Minuten; Std. Stunde Stunden; s Sekunde Sekunden; Sek. Sekunde Sekunden
        Mio. Million Millionen
        Mrd. Milliarde Milliarden; km/h Kilometer_pro_Stunde/Stundenkilometer/Kilometer_die_Stunde
        Kilometer_pro_Stunde/Stundenkilometer/Kilometer_die_Stunde
        °C Grad_Celsius/Grad Grad_Celsius/Grad; ° Grad Grad
        Hz Hertz Hertz; kHz Kilohertz Kilohertz; kW Kilowatt Kilowatt
        kWh Kilowattstunde Kilowattstunden; MB Megabyte Megabyte; GB Gigabyte Gigabyte
        ha Hektar Hektar; m2 Quadratmeter Quadratmeter; km2 Quadratkilometer Quadratkilometer""",
    "es": """
        km kilómetro kilómetros; m metro metros; cm centímetro centímetros; mm milímetro milímetros
        kg kilogramo/kilo kilogramos/kilos; g gramo gramos; mg miligramo miligramos
        t tonelada toneladas; l litro litros; ml mililitro mililitros; h hora horas
        min minuto minutos; s segundo segundos; km/h kilómetro_por_hora kilómetros_por_hora
        °C grado_centígrado/grado_celsius/grado grados_centígrados/grados_celsius/grados
        ° grado grados; Hz hercio hercios; kW kilovatio kilovatios; MB megabyte megabytes
        GB gigabyte/giga gigabytes/gigas; ha hectárea hectáreas
        m2 metro_cuadrado metros_cuadrados; km2 kilómetro_cuadrado kilómetros_cuadrados""",
    "fr": """
        km kilomètre kilomètres; m mètre mètres; cm centimètre centimètres
        mm millimètre millimètres; kg kilogramme/kilo kilogrammes/kilos; g gramme grammes
        mg milligramme milligrammes
        t tonne tonnes; l litre litres; ml millilitre millilitres; h heure heures
        min minute minutes; mn minute minutes; s seconde secondes
        km/h kilomètre_par_heure/kilomètre_heure/kilomètre_à_l'heure
        kilomètres_par_heure/kilomètres_heure/kilomètres_à_l'heure
        °C degré_celsius/degré degrés_celsius/degrés; ° degré degrés; Hz hertz hertz
        kW kilowatt kilowatts; Mo mégaoctet mégaoctets; Go gigaoctet gigaoctets
        ha hectare hectares; m2 mètre_carré mètres_carrés
        km2 kilomètre_carré kilomètres_carrés""",
    "it": """
        km chilometro chilometri; m metro metri; cm centimetro centimetri; mm millimetro millimetri
        kg chilogrammo/chilo chilogrammi/chili; g grammo grammi; mg milligrammo milligrammi
        t tonnellata tonnellate; l litro litri; ml millilitro millilitri; h ora ore
        min minuto minuti; s secondo secondi
        km/h chilometro_all'ora/chilometro_orario chilometri_all'ora/chilometri_orari
        °C grado_celsius/grado/grado_centigrado gradi_celsius/gradi/gradi_centigradi
        ° grado gradi; Hz hertz hertz; kW chilowatt chilowatt; MB megabyte megabyte
        GB gigabyte gigabyte; ha ettaro ettari
        m2 metro_quadrato/metro_quadro metri_quadrati/metri_quadri
        mq metro_quadrato/metro_quadro metri_quadrati/metri_quadri
        km2 chilometro_quadrato chilometri_quadrati""",
    "zh": """
        km 公里/千米 公里/千米; m 米 米; cm 厘米/公分 厘米/公分; mm 毫米 毫米
        kg 公斤/千克 公斤/千克; g 克 克; mg 毫克 毫克; t 吨 吨; l 升 升; L 升 升; ml 毫升 毫升
        h 小时 小时; min 分钟 分钟; s 秒 秒; km/h 公里每小时 公里每小时
        °C 摄氏度/度 摄氏度/度; ° 度 度; kW 千瓦 千瓦; Hz 赫兹 赫兹; ha 公顷 公顷
        GB 吉字节/个G 吉字节/个G
        m2 平方米 平方米; km2 平方公里 平方公里""",
}
#: {h}: the hour, {n}: the next one, {m}: minutes, {b}: minutes to the next hour. After `30`, `15`,
#: `45` and `00`: at that minute.
_TIMES = {
    "en": "{h} {m}|{h} oh {m}|{m} past {h}|{b} to {n}|30 half past {h}|15 quarter past {h}"
    "|15 a quarter past {h}|45 quarter to {n}|45 a quarter to {n}|00 {h} o'clock|00 {h}",
    "de": "{h} Uhr {m}|{h} {m}|{h} Uhr und {m} Minuten|{m} nach {h}|{b} vor {n}|30 halb {n}"
    "|25 fünf vor halb {n}|35 fünf nach halb {n}|15 Viertel nach {h}|45 Viertel vor {n}"
    "|45 drei Viertel {n}|00 {h} Uhr|00 {h}",
    "es": "{h} y {m}|{h} {m}|{h} horas {m}|{h} horas y {m} minutos|{n} menos {b}|30 {h} y media"
    "|15 {h} y cuarto|45 {n} menos cuarto|00 {h} en punto|00 {h} horas|00 {h}",
    "fr": "{h} heures {m}|{n} heures moins {b}|30 {h} heures et demie|15 {h} heures et quart"
    "|45 {n} heures moins le quart|45 {n} heures moins quart|00 {h} heures",
    "it": "{h} e {m}|{h} {m}|{n} meno {b}|30 {h} e mezza|30 {h} e mezzo|15 {h} e un quarto"
    "|45 {h} e tre quarti|45 {n} meno un quarto|00 {h} in punto|00 {h}",
    "zh": "{h}点{m}分|{h}点{m}|{h}点0{m}分|{h}点0{m}|{h}时{m}分|差{b}分{n}点|{n}点差{b}分"
    "|30 {h}点半|15 {h}点一刻|45 {h}点三刻|00 {h}点|00 {h}点整|00 {h}点钟",
}
#: An hour, and what may be said for it.
_HOURS = {
    "es": ("uno", "una"),
    "it": ("uno", "una"),
    "de": ("eins Uhr", "ein Uhr"),
    "fr": ("un heures", "une heure"),
}
_HALF_DAYS = ("下午", "晚上")  # before the hours from 1 to 11 of 13:00 to 23:00
_CLOCK = {
    "de": r"([01]?\d|2[0-4])[:.]([0-5]\d)(?:\s?Uhr\b)|([01]?\d|2[0-4]):([0-5]\d)",
    "es": r"([01]?\d|2[0-4])[:.]([0-5]\d)\s?h\b|([01]?\d|2[0-4]):([0-5]\d)",
    "it": r"(?<=\balle )([01]?\d|2[0-4])\.([0-5]\d)|([01]?\d|2[0-4]):([0-5]\d)",
    "fr": r"([01]?\d|2[0-4])\s?(?:h|:)\s?([0-5]\d)",
    "": r"([01]?\d|2[0-4]):([0-5]\d)",
}
#: Of 1/2; names of the parts from 1/3 to 1/10; what one and several of them are; what may follow.
_HALVES = {
    "en": "half|a half|one half|half a|half an",
    "de": "ein halb|einhalb|halb|ein halber|ein halbes|eine halbe|einen halben|einem halben"
    "|einer halben|halbe",
    "es": "medio|media|un medio",
    "fr": "un demi|une demi|demi|demie|une demie|la moitié",
    "it": "mezzo|mezza|un mezzo|una mezza",
    "zh": "2分之1|一半|半",
}
_PARTS = {
    "en": "third quarter/fourth fifth sixth seventh eighth ninth tenth",
    "de": "Drittel Viertel Fünftel Sechstel Siebtel Achtel Neuntel Zehntel",
    "es": "tercio cuarto quinto sexto séptimo octavo noveno décimo",
    "fr": "tiers quart cinquième sixième septième huitième neuvième dixième",
    "it": "terzo quarto quinto sesto settimo ottavo nono decimo",
}
_OF_PARTS = {
    "en": ("a {p}|one {p}|a {p} of a|one {p} of a|one {p} of an", "{w} {p}s|{w} {p}|{w} {p}s of a"),
    "de": ("ein {p}", "{w} {p}|{w}{p}"),
    "es": ("un {p}|un {p} de", "{w} {p}s|{w} {p}s de"),
    "fr": ("un {p}", "{w} {p}|{w} {p}s"),
    "it": ("un {p}", "{w} {p}"),
}
#: {w} and a half of {u}: "1 1/2", "1.5" and a unit or another word.
_AND_HALF = {
    "en": "{w} and a half {u}|{w} {u} and a half",
    "de": "{w}einhalb {u}|anderthalb {u}",
    "es": "{w} {u} y medio|{w} {u} y media|{w} y medio {u}|{w} y media {u}",
    "fr": "{w} {u} et demi|{w} {u} et demie|{w} et demi {u}",
    "it": "{w} {u} e mezzo|{w} {u} e mezza|{w} e mezzo {u}|{w} e mezza {u}",
    "zh": "{w}个半{u}|{w}{u}半",
}
_WITH_HALF = re.compile(r"(?<![\d.,/⁄])(\d{1,3})(?:[.,]5|\s+1[/⁄]2)(?![\d/⁄.,])\s?([^\W\d_]*)")
#: What the number one is before a noun; the numbers that end in it need no others.
_ONES = {
    "de": ("ein", "eine", "einen", "einem", "einer"),
    "es": ("un", "una"),
    "fr": ("une",),
    "it": ("un", "una", "un'"),
}
_ONE = re.compile(r"(?<![\d.,:/⁄])1(?=\s?[^\W\d_]|$)")
_AND = {"en": "and", "de": "und", "es": "y", "fr": "et", "it": "e", "zh": "又"}
_FRACTION = re.compile(
    r"(?<![\d/⁄])(?:(?P<whole>\d+)\s+)?(?P<of>\d)[/⁄](?P<all>10|[2-9])(?![\d/⁄])"
)
#: A number that the mark behind it makes an ordinal. (English has them in Whisper's rule.)
_ORDINAL = {
    "de": re.compile(
        r"(?<![\d.,])(\d{1,4})\.(?=\s+\w)|(?<=\b(?:der|die|das|dem|den) )(\d{1,4})\.(?!\d)"
    ),
    "es": re.compile(
        r"(?<![\d.,])(\d{1,3})(?:\.?(?:°|o|a|er|ero|era|do|da)(?!\w)"
        r"|(?<=\b1)(?= de (?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre"
        r"|noviembre|diciembre)\b))"
    ),
    "fr": re.compile(r"(?<![\d.,])(\d{1,4})(?:ers?|[èe]res?|res?|[èe]?mes?|es?)\b"),
    "it": re.compile(
        r"(?<![\d.,])(\d{1,3})(?:(?:°|o|a)(?!\w)"
        r"|(?<=\b1)(?= (?:gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre"
        r"|ottobre|novembre|dicembre)\b))"
    ),
}
_MONTHS = "january february march april may june july august september october november december"
_MONTHS = f"({'|'.join(_MONTHS.split())})"
#: By language: what is written, and what is said for its groups.
_OTHERS = {
    "en": (
        (rf"\b{_MONTHS} (\d{{1,2}})(?![\d:])", "{0} {1:o}|{0} the {1:o}"),
        (rf"(?<![\d.,:])(\d{{1,2}}) {_MONTHS}\b", "{0:o} {1}|the {0:o} {1}|the {0:o} of {1}"),
        (r"(\d)'\s?(\d{1,2})(?:\"|'')", "{0} foot {1}|{0} feet {1}|{0} feet {1} inches"),
    ),
    "fr": ((r"\b2n?de?s?\b", "second|seconde"), (r"(?<!\d)21(?= ?h)", "vingt et une")),
    "zh": (
        (r"(\d+)\s?(?:km/h|公里/小时|公里每小时)", "每小时{0}公里"),
        (r"(?<=月)(\d+)日", "{0}号"),
        (r"(\d+)点30分?", "{0}点半"),
        (r"(\d+)元|¥(\d+)(?![\d.])", "{0}块|{0}块钱|{0}元"),
        (r"(\d+)\.([1-9])0?元", "{0}块{1}|{0}元{1}角|{0}块{1}角|{0}块{1}毛"),
    ),
}
_SUM = re.compile(
    r"(?P<before>[$€£]\s?)?(?<![\d.,])(?P<whole>\d+)[.,](?P<part>\d\d)(?!\d)(?P<after>\s?[$€£元])?"
)
#: By language and sign; {w}: notes, {p}: coins.
_SUMS = {
    "en": {
        "$": "{w} dollars {p}|{w} dollars and {p} cents|{w} {p}",
        "€": "{w} euros {p}|{w} euros and {p} cents|{w} {p}",
        "£": "{w} pounds {p}|{w} pounds and {p} pence|{w} {p}",
    },
    "de": {
        "€": "{w} Euro {p}|{w} Euro und {p} Cent",
        "$": "{w} Dollar {p}|{w} Dollar und {p} Cent",
    },
    "es": {"€": "{w} euros con {p}|{w} euros {p}|{w} euros y {p} céntimos|{w} con {p}"},
    "fr": {"€": "{w} euros {p}|{w} euros et {p} centimes"},
    "it": {"€": "{w} euro e {p}|{w} euro {p}|{w} euro e {p} centesimi"},
    "zh": {"元": "{w}元{p}|{w}块{p}"},
}


def forms(text: str, language: str) -> list[Forms]:
    """Parts of a text of figures with other ways to say them, by place. `text`: in compatibility
    form (NFKC), where "½" is "1⁄2"."""
    code = base(language)
    if code not in _TIMES:
        return []
    rules = _units, _times, _fractions, _and_half, _ones, _ordinals, _sums, _others
    return sorted(form for rule in rules for form in rule(text, code))


@cache
def _names(code: str) -> tuple[re.Pattern[str], dict[str, tuple[tuple[str, ...], ...]]]:
    """Finds a unit behind a number; its names, of one and of several."""
    names: dict[str, tuple[tuple[str, ...], ...]] = {}
    words = re.split(r"[;\s]+", _UNITS[code].strip())
    for unit, *counted in zip(words[::3], words[1::3], words[2::3], strict=True):
        names[unit] = tuple(tuple(n.replace("_", " ").split("/")) for n in counted)
    longest = sorted(map(re.escape, names), key=len, reverse=True)
    units = "|".join(longest).replace("|in|", "|in(?!\\s+\\w|-)|")  # "5 in the box"
    return re.compile(rf"(?<=\d)[\s-]?({units})(?![\w/])"), names


def _units(text: str, code: str) -> Iterator[Forms]:
    pattern, names = _names(code)
    for match in pattern.finditer(text):
        phrases = dict.fromkeys(name for counted in names[match[1]] for name in counted)
        blank = "" if code == "zh" else " "
        yield Forms(*match.span(), tuple(blank + name for name in phrases))


def _times(text: str, code: str) -> Iterator[Forms]:
    clock = _CLOCK.get(code, _CLOCK[""])
    pattern = rf"(?<![\d:.,])(?:{clock})(?![\d:])(?P<half>\s?[ap]\.?\s?m\b\.?)?"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        hour, minute = (figures for figures in match.groups()[:-1] if figures)
        half = " " + " ".join(re.findall("[apmAPM]", match["half"])) if match["half"] else ""
        hours = dict.fromkeys((int(hour), int(hour) % 12 or 12))  # 13:30 is half past one, too
        phrases = [
            form + half
            for template in _TIMES[code].split("|")
            for number in hours
            for form in _at(template, number, minute, code)
        ]
        if code == "zh" and int(hour) > 12:
            phrases += [half_day + phrase for half_day in _HALF_DAYS for phrase in phrases]
        yield Forms(*match.span(), tuple(phrases))
    if code == "en":  # "8 a.m."
        for match in re.finditer(r"(?<=\d)\s?([ap])\.?\s?m\b\.?", text, re.IGNORECASE):
            yield Forms(*match.span(), (f" {match[1]}m", f" {match[1]} m"))


def _at(template: str, hour: int, minute: str, code: str) -> Iterator[str]:
    """A template with its numbers, if it is for that minute."""
    only = re.match(r"(\d\d) ", template)
    if only and only[1] != minute:
        return
    template = template[3:] if only else template
    if minute == "00" and ("{m}" in template or "{b}" in template):
        return
    following = hour % 12 + 1
    say: Callable[[int], str] = str if code == "zh" else lambda n: figures_read(str(n), code)
    past = int(minute)
    phrase = template.format(h=say(hour), n=say(following), m=say(past), b=say(60 - past))
    yield phrase
    if code in _HOURS:
        yield phrase.replace(*_HOURS[code], 1)


def _fractions(text: str, code: str) -> Iterator[Forms]:
    for match in _FRACTION.finditer(text):
        phrases = _parts(int(match["of"]), int(match["all"]), code)
        if match["whole"]:
            whole = figures_read(match["whole"], code)
            phrases = [f"{whole} {_AND[code]} {phrase}" for phrase in phrases]
        yield Forms(*match.span(), tuple(phrases))


def _parts(of: int, parts: int, code: str) -> list[str]:
    """What is said for a fraction of 2 to 10 parts."""
    if (of, parts) == (1, 2):
        return _HALVES[code].split("|")
    if code == "zh":
        return [f"{parts}分之{of}"]
    if parts == 2:
        return []
    names = _PARTS[code].split()[parts - 3].split("/")
    if code == "it" and of > 1:
        names = [f"{name[:-1]}i" for name in names]
    templates = _OF_PARTS[code][of > 1].split("|")
    number = figures_read(str(of), code)
    return [t.format(w=number, p=name) for t in templates for name in names]


def _and_half(text: str, code: str) -> Iterator[Forms]:
    _, units = _names(code)
    for match in _WITH_HALF.finditer(text):
        numbers = [match[1] if code == "zh" else figures_read(match[1], code)]
        if match[1] == "1":
            numbers += _ONES.get(code, ())
        nouns = [name for counted in units.get(match[2], ()) for name in counted]
        nouns = nouns or [match[2], match[2].removesuffix("s")]
        phrases = [match[0][: match.start(2) - match.start()] + noun for noun in nouns]
        phrases += [
            template.format(w=number, u=noun)
            for template in _AND_HALF[code].split("|")
            if match[1] == "1" or "anderthalb" not in template
            for number in numbers
            for noun in nouns
        ]
        yield Forms(*match.span(), tuple(phrases))


def _ones(text: str, code: str) -> Iterator[Forms]:
    for match in _ONE.finditer(text):
        yield Forms(*match.span(), _ONES.get(code, ()))


def _ordinals(text: str, code: str) -> Iterator[Forms]:
    if code in _ORDINAL:
        for match in _ORDINAL[code].finditer(text):
            yield Forms(*match.span(), ordinals(code, match[1] or match[match.lastindex or 1]))
    if code == "de":  # the day and the month: "am 3.5."
        for match in re.finditer(r"(?<![\d.,])(\d{1,2})\.\s?(\d{1,2})\.(?:(\d{4})\b)?", text):
            both = zip(*(ordinals(code, number) for number in match.group(1, 2)), strict=False)
            yield Forms(*match.span(), tuple(f"{d} {m} {match[3] or ''}" for d, m in both))


def _others(text: str, code: str) -> Iterator[Forms]:
    for written, templates in _OTHERS.get(code, ()):
        for match in re.finditer(written, text, re.IGNORECASE):
            groups = [_Number(group) for group in match.groups() if group]
            yield Forms(*match.span(), tuple(t.format(*groups) for t in templates.split("|")))


class _Number(str):
    """A text whose format `o` is the English ordinal of its number."""

    def __format__(self, form: str) -> str:
        return ordinal("en", self) or self if form == "o" else str(self)


def _sums(text: str, code: str) -> Iterator[Forms]:
    for match in _SUM.finditer(text):
        sign = (match["before"] or match["after"] or "").strip()
        if templates := _SUMS[code].get(sign):
            phrases = (
                t.format(w=match["whole"], p=int(match["part"])) for t in templates.split("|")
            )
            yield Forms(*match.span(), tuple(phrases))
