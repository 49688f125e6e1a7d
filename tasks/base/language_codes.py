"""Parses language codes as settings and lists write them, and finds the code for a name.

A code is ISO 639-1, or 639-3 for languages without one, with or without script and region: `en`,
`yue`, `zh-Hant-TW`, `en_us`.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: Whisper's names of languages (openai/whisper, tokenizer.py), and its codes. Name, code, name,
#: code.
_NAMES = """
afrikaans af albanian sq amharic am arabic ar armenian hy assamese as azerbaijani az bashkir ba
basque eu belarusian be bengali bn bosnian bs breton br bulgarian bg burmese my cantonese yue
castilian es catalan ca chinese zh croatian hr czech cs danish da dutch nl english en estonian et
faroese fo finnish fi flemish nl french fr galician gl georgian ka german de greek el gujarati gu
haitian ht hausa ha hawaiian haw hebrew he hindi hi hungarian hu icelandic is indonesian id
italian it japanese ja javanese jw kannada kn kazakh kk khmer km korean ko lao lo latin la
latvian lv letzeburgesch lb lingala ln lithuanian lt luxembourgish lb macedonian mk malagasy mg
malay ms malayalam ml maltese mt mandarin zh maori mi marathi mr moldavian ro mongolian mn
myanmar my nepali ne norwegian no nynorsk nn occitan oc panjabi pa pashto ps persian fa polish pl
portuguese pt punjabi pa pushto ps romanian ro russian ru sanskrit sa serbian sr shona sn sindhi sd
sinhala si sinhalese si slovak sk slovenian sl somali so spanish es sundanese su swahili sw
swedish sv tagalog tl tajik tg tamil ta tatar tt telugu te thai th tibetan bo turkish tr turkmen tk
ukrainian uk urdu ur uzbek uz valencian ca vietnamese vi welsh cy yiddish yi yoruba yo
"""
#: The three-letter codes of ISO 639-2 and 639-3 for the same languages, each before the two-letter
#: code that recognisers use.
_THREE_LETTERS = """
afr af alb sq amh am ara ar arm hy asm as aze az bak ba baq eu bel be ben bn bod bo bos bs bre br
bul bg bur my cat ca ces cs chi zh cmn zh cym cy cze cs dan da deu de dut nl ell el eng en est et
eus eu fao fo fas fa fin fi fra fr fre fr geo ka ger de glg gl gre el guj gu hat ht hau ha heb he
hin hi hrv hr hun hu hye hy ice is ind id isl is ita it jav jv jpn ja kan kn kat ka kaz kk khm km
kor ko lao lo lat la lav lv lin ln lit lt ltz lb mac mk mal ml mao mi mar mr may ms mkd mk mlg mg
mlt mt mon mn mri mi msa ms mya my nep ne nld nl nno nn nob nb nor no oci oc pan pa per fa pol pl
por pt pus ps ron ro rum ro rus ru san sa sin si slk sk slo sk slv sl sna sn snd sd som so spa es
sqi sq srp sr sun su swa sw swe sv swh sw tam ta tat tt tel te tgk tg tgl tl tha th tib bo tuk tk
tur tr ukr uk urd ur uzb uz vie vi wel cy yid yi yor yo zho zh
"""
#: All of ISO 639-1, and the former codes of Hebrew, Indonesian, Yiddish, Moldavian and Javanese.
_TWO_LETTERS = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik in io is it iu iw ja ji jv jw ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li
ln lo lt lu lv mg mh mi mk ml mn mo mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa
pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th
ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
_PAIR = re.compile(r"(\w+)\s+(\w+)")
#: Individual languages (ISO 639-3) of a macrolanguage that has a code of two letters.
_OF_MACRO = _PAIR.findall(
    "arb ar pes fa prs fa zsm ms ekk et lvs lv npi ne uzn uz azj az khk mn als sq swh sw pbt ps "
    "pbu ps azb az plt mg ydd yi ory or"
)
#: Former codes of Hebrew, Indonesian, Yiddish and Moldavian, which models' lists still have.
_FORMER = _PAIR.findall("iw he in id ji yi mo ro")
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")
OF_NAMES: dict[str, str] = dict(_PAIR.findall(_NAMES))
_LISTED = frozenset(_TWO_LETTERS.split())
_SHORTER: dict[str, str] = dict([*_PAIR.findall(_THREE_LETTERS), *_OF_MACRO, *_FORMER])
WHISPER = tuple(sorted({*OF_NAMES.values()}))
#: Whisper's only code that is not ISO 639's.
_ISO = {"jw": "jv"}


def base(language: str) -> str:
    """The code without script and region, in lower case: `zh-Hant` -> `zh`."""
    return re.split("[-_]", language.strip().lower())[0]


def fault(language: str) -> str | None:
    """Why this is not a language code, and what to write instead; None if it looks like one."""
    if _CODE.fullmatch(language.strip()):
        return None
    code = suggestion(language)
    # In quotes, because YAML reads a bare `no` as false.
    instead = f'"{code}"' if code else '"en", "es" or "yue"'
    return f"{language!r} is not a language code; write {instead}"


#: Codes that name no language (ISO 639-2: undetermined, several, none, no code).
_NO_LANGUAGE = frozenset(("und", "mul", "zxx", "mis"))
#: Mandarin: recognisers and lists use both codes, so each stays as written.
_BOTH = frozenset(("cmn",))


@lru_cache(1024)
def read(language: str) -> str | None:
    """The code of a language as lists write it. Codes (`en`, `en_US`) stay; three letters with a
    two-letter form (`eng`) and English names (`English`, `Chinese (Taiwan)`) become codes. "" for
    one that names no language; None if it is none of these."""
    language = language.strip()
    plain = base(language)
    if plain in _NO_LANGUAGE or language.lower() in ("unknown", "n/a"):
        return ""
    if not _CODE.fullmatch(language) or language.lower() in OF_NAMES:
        return suggestion(language)
    if len(plain) == 2 and plain not in _LISTED:
        return None
    if plain in _BOTH or plain not in _SHORTER:
        return language
    return _SHORTER[plain] + language[len(plain) :]


def suggestion(language: str) -> str | None:
    """The code for an English name or for three letters with a two-letter form, else None."""
    words = re.findall(r"[^\W\d_]+", language.lower())
    named = next((OF_NAMES[word] for word in words if word in OF_NAMES), None)
    code = named or _SHORTER.get(base(language))
    return None if code is None else _ISO.get(code, code)


def unknown(language: str) -> str:
    """A recogniser's error message for a language that its model lacks."""
    code = suggestion(language)
    instead = f'; write "{code}"' if code else ""
    return f"the model does not know the language {language!r}{instead}"
