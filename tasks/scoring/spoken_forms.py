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

from .normalisers import base, figures_read, ordinals


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
        lb pound pounds; lbs pound pounds; oz ounce ounces; h hour hours; min minute minutes
        s second seconds; ms millisecond milliseconds; mph mile_per_hour miles_per_hour
        km/h kilometer_per_hour kilometers_per_hour; °C degree_celsius degrees_celsius/degrees
        °F degree_fahrenheit degrees_fahrenheit/degrees; ° degree degrees; Hz hertz hertz
        kHz kilohertz kilohertz; kW kilowatt kilowatts; kWh kilowatt_hour kilowatt_hours
        MB megabyte megabytes; GB gigabyte gigabytes; ha hectare hectares
        m2 square_meter square_meters; km2 square_kilometer square_kilometers""",
    "de": """
        km Kilometer Kilometer; m Meter Meter; cm Zentimeter Zentimeter; mm Millimeter Millimeter
        kg Kilogramm/Kilo Kilogramm/Kilo; g Gramm Gramm; mg Milligramm Milligramm; t Tonne Tonnen
        l Liter Liter; ml Milliliter Milliliter; h Stunde Stunden; min Minute Minuten
        Min. Minute Minuten; Std. Stunde Stunden; s Sekunde Sekunden; Mio. Million Millionen
        Mrd. Milliarde Milliarden; km/h Kilometer_pro_Stunde/Stundenkilometer
        Kilometer_pro_Stunde/Stundenkilometer; °C Grad_Celsius/Grad Grad_Celsius/Grad; ° Grad Grad
        Hz Hertz Hertz; kHz Kilohertz Kilohertz; kW Kilowatt Kilowatt
        kWh Kilowattstunde Kilowattstunden; MB Megabyte Megabyte; GB Gigabyte Gigabyte
        ha Hektar Hektar; m2 Quadratmeter Quadratmeter; km2 Quadratkilometer Quadratkilometer""",
    "es": """
        km kilómetro kilómetros; m metro metros; cm centímetro centímetros; mm milímetro milímetros
        kg kilogramo/kilo kilogramos/kilos; g gramo gramos; mg miligramo miligramos
        t tonelada toneladas; l litro litros; ml mililitro mililitros; h hora horas
        min minuto minutos; s segundo segundos; km/h kilómetro_por_hora kilómetros_por_hora
        °C grado_centígrado/grado_celsius/grado grados_centígrados/grados_celsius/grados
        ° grado grados; Hz hercio hercios; kW kilovatio kilovatios; ha hectárea hectáreas
        m2 metro_cuadrado metros_cuadrados; km2 kilómetro_cuadrado kilómetros_cuadrados""",
    "fr": """
        km kilomètre kilomètres; m mètre mètres; cm centimètre centimètres
        mm millimètre millimètres; kg kilogramme/kilo kilogrammes/kilos; g gramme grammes
        mg milligramme milligrammes
        t tonne tonnes; l litre litres; ml millilitre millilitres; h heure heures
        min minute minutes; mn minute minutes; s seconde secondes
        km/h kilomètre_par_heure/kilomètre_heure kilomètres_par_heure/kilomètres_heure
        °C degré_celsius/degré degrés_celsius/degrés; ° degré degrés; Hz hertz hertz
        kW kilowatt kilowatts; ha hectare hectares; m2 mètre_carré mètres_carrés
        km2 kilomètre_carré kilomètres_carrés""",
    "it": """
        km chilometro chilometri; m metro metri; cm centimetro centimetri; mm millimetro millimetri
        kg chilogrammo/chilo chilogrammi/chili; g grammo grammi; mg milligrammo milligrammi
        t tonnellata tonnellate; l litro litri; ml millilitro millilitri; h ora ore
        min minuto minuti; s secondo secondi
        km/h chilometro_all'ora/chilometro_orario chilometri_all'ora/chilometri_orari
        °C grado_celsius/grado/grado_centigrado gradi_celsius/gradi/gradi_centigradi
        ° grado gradi; Hz hertz hertz; kW chilowatt chilowatt; ha ettaro ettari
        m2 metro_quadrato metri_quadrati; km2 chilometro_quadrato chilometri_quadrati""",
    "zh": """
        km 公里/千米 公里/千米; m 米 米; cm 厘米/公分 厘米/公分; mm 毫米 毫米
        kg 公斤/千克 公斤/千克; g 克 克; mg 毫克 毫克; t 吨 吨; l 升 升; L 升 升; ml 毫升 毫升
        h 小时 小时; min 分钟 分钟; s 秒 秒; km/h 公里每小时 公里每小时
        °C 摄氏度/度 摄氏度/度; ° 度 度; kW 千瓦 千瓦; Hz 赫兹 赫兹; ha 公顷 公顷
        m2 平方米 平方米; km2 平方公里 平方公里""",
}
#: {h}: the hour, {n}: the next one, {m}: minutes. After `30`, `15`, `45` and `00`: at that minute.
_TIMES = {
    "en": "{h} {m}|{h} oh {m}|{m} past {h}|30 half past {h}|15 quarter past {h}"
    "|15 a quarter past {h}|45 quarter to {n}|45 a quarter to {n}|00 {h} o'clock|00 {h}",
    "de": "{h} Uhr {m}|{h} {m}|{h} Uhr und {m} Minuten|30 halb {n}|15 Viertel nach {h}"
    "|45 Viertel vor {n}|45 drei Viertel {n}|00 {h} Uhr|00 {h}",
    "es": "{h} y {m}|{h} {m}|{h} horas {m}|{h} horas y {m} minutos|30 {h} y media|15 {h} y cuarto"
    "|45 {n} menos cuarto|00 {h} en punto|00 {h} horas|00 {h}",
    "fr": "{h} heures {m}|{h} heure {m}|30 {h} heures et demie|30 {h} heure et demie"
    "|15 {h} heures et quart|45 {n} heures moins le quart|00 {h} heures|00 {h} heure",
    "it": "{h} e {m}|{h} {m}|30 {h} e mezza|30 {h} e mezzo|15 {h} e un quarto"
    "|45 {n} meno un quarto|00 {h} in punto|00 {h}",
    "zh": "{h}点{m}分|{h}点{m}|{h}时{m}分|30 {h}点半|15 {h}点一刻|45 {h}点三刻|00 {h}点|00 {h}点整",
}
#: One, and its form as an hour.
_ONE_OCLOCK = {"es": ("uno", "una"), "it": ("uno", "una"), "de": ("eins Uhr", "ein Uhr")}
_CLOCK = {
    "de": r"([01]?\d|2[0-4])[:.]([0-5]\d)(?:\s?Uhr\b)|([01]?\d|2[0-4]):([0-5]\d)",
    "fr": r"([01]?\d|2[0-4])\s?(?:h|:)\s?([0-5]\d)",
    "": r"([01]?\d|2[0-4]):([0-5]\d)",
}
_FRACTIONS = {
    "en": {
        "1/2": "half|a half|one half|half a|half an",
        "1/3": "a third|one third|a third of a",
        "2/3": "two thirds",
        "1/4": "a quarter|one quarter|a quarter of a|one fourth|a fourth",
        "3/4": "three quarters|three fourths",
    },
    "de": {
        "1/2": "ein halb|einhalb|halb|ein halber|ein halbes|eine halbe|einen halben|einem halben"
        "|einer halben|halbe",
        "1/3": "ein Drittel",
        "2/3": "zwei Drittel",
        "1/4": "ein Viertel",
        "3/4": "drei Viertel|dreiviertel",
    },
    "es": {
        "1/2": "medio|media|un medio",
        "1/3": "un tercio",
        "2/3": "dos tercios",
        "1/4": "un cuarto|un cuarto de",
        "3/4": "tres cuartos|tres cuartos de",
    },
    "fr": {
        "1/2": "un demi|une demi|demi|demie|une demie|la moitié",
        "1/3": "un tiers",
        "2/3": "deux tiers",
        "1/4": "un quart",
        "3/4": "trois quarts",
    },
    "it": {
        "1/2": "mezzo|mezza|un mezzo|una mezza",
        "1/3": "un terzo",
        "2/3": "due terzi",
        "1/4": "un quarto",
        "3/4": "tre quarti",
    },
    "zh": {
        "1/2": "2分之1|一半|半",
        "1/3": "3分之1",
        "2/3": "3分之2",
        "1/4": "4分之1",
        "3/4": "4分之3",
    },
}
_AND = {"en": "and", "de": "und", "es": "y", "fr": "et", "it": "e", "zh": "又"}
_FRACTION = re.compile(r"(?<![\d/⁄])(?:(?P<whole>\d+)\s+)?(?P<of>\d)[/⁄](?P<all>\d)(?![\d/⁄])")
#: A number that the mark behind it makes an ordinal. (English has them in Whisper's rule.)
_ORDINAL = {
    "de": re.compile(r"(?<![\d.,])(\d{1,4})\.(?=\s+\w)"),
    "es": re.compile(
        r"(?<![\d.,])(\d{1,3})(?:\.?(?:°|o|a|er|ero|era|do|da)(?!\w)"
        r"|(?<=\b1)(?= de (?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre"
        r"|noviembre|diciembre)\b))"
    ),
    "fr": re.compile(r"(?<![\d.,])(\d{1,4})(?:ers?|[èe]res?|res?|nde?s?|[èe]?mes?|es?)\b"),
    "it": re.compile(
        r"(?<![\d.,])(\d{1,3})(?:(?:°|o|a)(?!\w)"
        r"|(?<=\b1)(?= (?:gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre"
        r"|ottobre|novembre|dicembre)\b))"
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
    rules = _units, _times, _fractions, _ordinals, _sums
    return sorted(form for rule in rules for form in rule(text, code))


@cache
def _names(code: str) -> tuple[re.Pattern[str], dict[str, tuple[tuple[str, ...], ...]]]:
    """Finds a unit behind a number; its names, of one and of several."""
    names: dict[str, tuple[tuple[str, ...], ...]] = {}
    words = re.split(r"[;\s]+", _UNITS[code].strip())
    for unit, *counted in zip(words[::3], words[1::3], words[2::3], strict=True):
        names[unit] = tuple(tuple(n.replace("_", " ").split("/")) for n in counted)
    longest = sorted(map(re.escape, names), key=len, reverse=True)
    units = "|".join(longest).replace("|in|", "|in(?!\\s+\\w)|")  # "5 in the box"
    return re.compile(rf"(?<=\d)\s?({units})(?![\w/])"), names


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
    if minute == "00" and "{m}" in template:
        return
    following = hour % 12 + 1
    say: Callable[[int], str] = str if code == "zh" else lambda n: figures_read(str(n), code)
    phrase = template.format(h=say(hour), n=say(following), m=say(int(minute)))
    yield phrase
    if code in _ONE_OCLOCK:
        yield phrase.replace(*_ONE_OCLOCK[code], 1)


def _fractions(text: str, code: str) -> Iterator[Forms]:
    for match in _FRACTION.finditer(text):
        alone = _FRACTIONS[code].get(f"{match['of']}/{match['all']}", "").split("|")
        if match["whole"] and alone[0]:
            whole = figures_read(match["whole"], code)
            yield Forms(*match.span(), tuple(f"{whole} {_AND[code]} {form}" for form in alone))
        elif alone[0]:
            yield Forms(*match.span(), tuple(alone))


def _ordinals(text: str, code: str) -> Iterator[Forms]:
    if code in _ORDINAL:
        for match in _ORDINAL[code].finditer(text):
            yield Forms(*match.span(), ordinals(code, match[1]))


def _sums(text: str, code: str) -> Iterator[Forms]:
    for match in _SUM.finditer(text):
        sign = (match["before"] or match["after"] or "").strip()
        if templates := _SUMS[code].get(sign):
            phrases = (
                t.format(w=match["whole"], p=int(match["part"])) for t in templates.split("|")
            )
            yield Forms(*match.span(), tuple(phrases))
