"""Different spellings of the same word, by language: folds them to one form for comparison.

Each rule names its source, and folds only what readers of the language take for one word: marks
that most writers omit, letters that two keyboards encode differently, the place of a tone mark. A
rule that would merge different words in another language applies only where it does not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

#: Combining comma below is the cedilla of another font (Unicode Standard, section 7.1, "Cedilla and
#: comma below"): ș is ş, ț is ţ, and so for Latvian.
_COMMA, _CEDILLA = "\u0326", "\u0327"
#: Vowel marks of Arabic and Hebrew scripts (Unicode Standard, sections 9.1 and 9.2: points that
#: normal text leaves out), the marks of the Quran, and tatweel, which only stretches a word.
_POINTS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)
#: An acute or grave on a Cyrillic letter marks the stress in dictionaries and schoolbooks (Unicode
#: Standard, section 7.4); no language of the script has a letter of it but ѐ and ѝ, which are left.
_STRESS = re.compile("(?<=[\u0400-\u052f])[\u0300\u0301]")
#: Letters of one form: Yiddish digraphs, which are typed as one key or two (Unicode Standard,
#: section 9.1), geresh, for which keyboards have the apostrophe, and U+02BB, the apostrophe of
#: Uzbek and Hawaiian (section 6.2).
_DIGRAPHS = {"׳": "'", "װ": "וו", "ױ": "וי", "ײ": "יי", "ʻ": "'"}
#: Sara am is one key or two, and the tone mark is typed before or after its ring (Unicode Standard,
#: section 16.1); two sara e look like sara ae (PyThaiNLP, `reorder_vowels`). The same in Lao.
_RING = re.compile("([\u0e48-\u0e4b\u0ec8-\u0ecb]+)([\u0e4d\u0ecd])")
_TWICE_E = (("\u0e40\u0e40", "\u0e41"), ("\u0ec0\u0ec0", "\u0ec1"))


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a language folds: `letters` to one form each; `forms`: patterns over decomposed text,
    still with ZWNJ and ZWJ, and their form."""

    letters: tuple[tuple[str, str], ...] = ()
    forms: tuple[tuple[str, str], ...] = ()


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Parses letters and their form, "أإآ ا, ى ي": each of the former maps to the latter."""
    folds = (fold.split() for fold in text.split(","))
    return tuple((letter, form) for letters, form in folds for letter in letters)


#: On Latin vowels and r: pitch and stress, in dictionaries only.
_SLAVIC = Spelling(forms=(("(?<=[aeiouAEIOUrR])[\u0300\u0301\u0302\u0304\u030f\u0311]", ""),))
#: Greek writes no accents over capitals, and then needs a dialytika that the accented word lacks
#: (CLDR, transform el-Upper): ΡΟΛΟΪ is ρολόι. Breathings went with the reform of 1982.
_GREEK = Spelling(
    forms=(("(?<=[\u0370-\u03ff])[\u0300\u0301\u0304\u0306\u0308\u0313\u0314\u0342]+", ""),)
)
#: Standard of the Central Hindi Directorate: anusvara in place of a nasal before a consonant of its
#: own series (Indic NLP Library: `to_anusvaara_strict`), हिन्दी.
_NASALS = tuple(
    (f"{nasal}\u094d[\u200c\u200d]?(?=[{series}])", "\u0902")
    for nasal, series in zip("ङञणनम", ("क-घ", "च-झ", "ट-ढ", "त-ध", "प-भ"), strict=True)
)
#: Of the same standard (IS 16500:2012): no nukta is needed in words from Persian and English
#: (ज़रूर), but ड़ and ढ़ are letters of Hindi; over the headline, anusvara stands for candrabindu
#: (नहीँ); of two endings the vowel is right (गये, नयी: गए, नई).
_HINDI = (
    *_NASALS,
    ("(?<=[कखगजफ])\u093c", ""),
    ("(?<=[ईएऐओऔ\u093f\u0940\u0947\u0948\u094b\u094c])\u0901", "\u0902"),
    *(
        (f"(?<=[\u0905-\u0939\u093c\u093e-\u094c])य{sign}(?=\u0902?(?![\u0900-\u0963]))", vowel)
        for sign, vowel in (("\u0940", "ई"), ("\u0947", "ए"))
    ),
)
#: hazm's Normalizer (roshan-research/hazm, hazm/constants.py, AFFIX_SPACING_PATTERNS): می and نمی
#: belong to their verb; ها, تر, ترین and گر with their endings to the word before, whether a half
#: space, a space or nothing stands between. The ezafe after ه, خانه‌ی, is the mark of خانهٔ.
_OWNER = "(?:م|ت|ش|مان|تان|شان)"
_PERSIAN = (
    ("(?<![\\w\u0653])(ن?می)[ \u200c]+(?=[^\\W\\d_])", r"\1"),
    (
        rf"(?<=[\w\u0653])[ \u200c]+(ها(?:ی{_OWNER}?|یی|{_OWNER})?|تر(?:ین)?(?:ها)?ی?|گری?)(?!\w)",
        r"\1",
    ),
    ("(?<=ه)[ \u200c]+ی(?!\\w)", ""),
)
#: ھ is a letter's breath after b, p, t, j, d, k and their kin alone, else another ہ: انھیں, ھے
#: (Unicode Standard, section 9.2; writers differ after m, n, l, r). Imla Nama (recommendations of
#: the bureau for Urdu, second edition), on hamza: لیے for لئے, and none at the end after alif, علما
#: for علماء; ۓ is ئے in one letter.
_URDU = (
    ("(?<![بپتٹجچدڈڑکگ])ھ", "ہ"),
    ("\u064a\u0654ے|ے\u0654", "یے"),
    ("(?<=\\wا)ء(?!\\w)", ""),
)
#: Khanda ta before Unicode 4.1 (section 12.2), আ and র in two signs (bnUnicodeNormalizer). ং and ঙ
#: without a vowel sound alike: Bangla Academy (rules of spelling, 1.04) lets ং stand before ক to ঘ
#: in sandhi (সংগীত, সঙ্গীত); where it does not (অংক), and at the end (রঙ), no other word is meant.
_BENGALI = (
    ("ত\u09cd\u200d", "ৎ"),
    ("অ\u09be", "আ"),
    ("ব\u09bc", "র"),
    ("ঙ(?:\u09cd[\u200c\u200d]?(?=[ক-ঘ])|(?![\u09bc-\u09cd]))", "\u0982"),
)
#: Ministry of Education, Decision 1989/QĐ-BGDĐT of 2018, article 9: i after an initial (hi vọng, kĩ
#: thuật), names as their owners write them; most still write y. quy and qui sound alike, too.
_VIETNAMESE = (
    ("(?<![\\w\u0300-\u036f])([hklmstvHKLMSTV]|[qQ][uU])[yY](?=[\u0300-\u0323]*(?!\\w))", r"\1i"),
)

#: Sources: ar: Open Universal Arabic ASR Leaderboard (arXiv 2412.13788), eval.py; yeh and ة at a
#: word's end: Lucene's ArabicNormalizer; the seats of hamza (مسؤول, مسئول): PyArabic,
#: `normalize_hamza`; letters as keyboards of Arabic and Persian encode them: Unicode Standard,
#: section 9.2, "Keheh, yeh". fa: hazm's Normalizer (roshan-research/hazm); ئ: Persian Academy
#: (پاییز). ur: CRULP's Urdu normalisation, as in urduhack. hi, mr, ne, bn, vi: above. ru:
#: Rules of Russian orthography (1956), paragraph 10: ё only where a word could be misread. lt, sl,
#: hr, sr, bs: stress and tone are marked in dictionaries only. fr: œ and æ are two letters on a
#: keyboard. vi: also `_toned`.
SPELLINGS: dict[str, Spelling] = {
    "ar": Spelling(_pairs("أإآٱ ا, ىی ي, ک ك, ہھە ه, ؤئ ء"), (("ة(?!\\w)", "ه"),)),
    "fa": Spelling(_pairs("أإٱ ا, يىےئ ی, ك ک, ةۀہھە ه, ؤ و"), _PERSIAN),
    "ur": Spelling(_pairs("أإٱ ا, يى ی, ك ک, هەۀۂۃة ہ"), _URDU),
    "hi": Spelling(forms=_HINDI),
    **dict.fromkeys(("mr", "ne"), Spelling(forms=_NASALS)),
    "bn": Spelling(forms=_BENGALI),
    "vi": Spelling(forms=_VIETNAMESE),
    "ru": Spelling(_pairs("ё е, Ё Е, ѐ е, Ѐ Е, ѝ и, Ѝ И")),
    "uk": Spelling(_pairs("ѐ е, Ѐ Е, ѝ и, Ѝ И")),
    "be": Spelling(_pairs("ѐ е, Ѐ Е, ѝ и, Ѝ И")),
    "lt": Spelling(forms=(("[\u0300\u0301\u0303]", ""),)),
    **dict.fromkeys(("sl", "hr", "sr", "bs"), _SLAVIC),
    **dict.fromkeys(("el", "grc"), _GREEK),
    "fr": Spelling(_pairs("œ oe, Œ OE, æ ae, Æ AE")),
}


@lru_cache(maxsize=256)
def speller(language: str) -> Callable[[str], str]:
    """`spelled(text) -> text`: words of a language in one spelling; takes and returns NFC."""
    spelling = SPELLINGS.get(language, Spelling())
    letters = str.maketrans({**_DIGRAPHS, **dict(spelling.letters)})
    forms = [(re.compile(pattern), form) for pattern, form in spelling.forms]

    def spelled(text: str) -> str:
        if text.isascii() and language != "vi":
            return text
        text = _STRESS.sub("", _POINTS.sub("", text)).translate(letters)
        text = _RING.sub(r"\2\1", text)
        for twice, once in _TWICE_E:
            text = text.replace(twice, once)
        apart = unicodedata.normalize("NFD", text).replace(_COMMA, _CEDILLA)
        if language == "vi":
            apart = _SYLLABLE.sub(_toned, apart)
        for pattern, form in forms:
            apart = pattern.sub(form, apart)
        return unicodedata.normalize("NFC", apart)

    return spelled


#: A Vietnamese syllable, decomposed, with a tone mark in it.
_SYLLABLE = re.compile("[^\\W\\d_]+[\u0300\u0301\u0303\u0309\u0323][\\w\u0300-\u036f]*")
_TONE = re.compile("[\u0300\u0301\u0303\u0309\u0323]")
#: A letter with marks that make it a different letter: circumflex, breve, horn.
_LETTER = re.compile("\\w[\u0302\u0306\u031b]*")
_VOWELS = "aeiouy"
#: Final vowel pairs whose second vowel has the tone; in others the first has it.
_SECOND = ("oa", "oe", "uy")


def _toned(syllable: re.Match[str]) -> str:
    """Puts the tone mark on the main vowel (Decision 1989/QĐ-BGDĐT of 2018, article 8): hòa, thủy
    -> hoà, thuỷ. A misplaced mark (hòan) moves likewise."""
    tones = _TONE.findall(syllable[0])
    letters = _LETTER.findall(_TONE.sub("", syllable[0]))
    if len(tones) != 1 or (bearer := _bearer([letter.lower() for letter in letters])) is None:
        return syllable[0]
    letters[bearer] += tones[0]
    return "".join(letters)


def _bearer(letters: list[str]) -> int | None:
    """Index of the letter that bears the tone; None if the letters are not a syllable."""
    vowels = [index for index, letter in enumerate(letters) if letter[0] in _VOWELS]
    if not vowels or vowels != [*range(vowels[0], vowels[-1] + 1)]:
        return None
    onset = "".join(letters[: vowels[0] + 1])
    if len(vowels) > 1 and onset in ("qu", "gi"):
        vowels = vowels[1:]
    altered = [index for index in vowels if len(letters[index]) > 1]
    if altered:
        return altered[-1]
    if vowels[-1] + 1 < len(letters):
        return vowels[-1]
    if len(vowels) == 2:
        return vowels["".join(letters[index] for index in vowels) in _SECOND]
    return vowels[len(vowels) // 2]
