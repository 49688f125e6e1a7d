"""One word in two spellings is no error of a recogniser, whatever the language; two words are."""

from __future__ import annotations

import unicodedata

import pytest

from uttermill.tasks.scoring import score
from uttermill.tasks.scoring.normalisers import normalise

PAIRS = [
    # vowel marks and tatweel
    ("ar", "ذَهَبَ الوَلَدُ إلى المَدْرَسَةِ", "ذهب الولد إلى المدرسة"),
    ("ar", "الســـلام عليكم", "السلام عليكم"),
    ("ar", "أكل الطفل تفاحة", "اكل الطفل تفاحة"),
    ("ar", "هذا ٱلكتاب لى", "هذا الكتاب لي"),
    ("he", "הַיֶּלֶד הָלַךְ לַגַּן", "הילד הלך לגן"),
    ("he", "ג׳ירפה", "ג'ירפה"),
    ("fa", "کِتابِ مَن کجاست", "کتاب من کجاست"),
    ("ur", "یہ اُردُو ہے", "یہ اردو ہے"),
    # letters of two keyboards
    ("fa", "كتاب علي", "کتاب علی"),
    ("fa", "خانۀ ما", "خانهٔ ما"),
    ("ar", "کتاب علی", "كتاب علي"),
    ("ur", "كيا يہ هے", "کیا یہ ہے"),
    ("yi", "ייִדיש איז װאונדערבאר", "ײִדיש איז וואונדערבאר"),
    ("ar", "مدرسة كبيرة", "مدرسه كبيره"),
    ("ar", "المسؤول عن شؤون", "المسئول عن شئون"),
    ("ar", "على الجمعة", "علي الجمعه"),
    ("fa", "پائیز", "پاییز"),
    ("ur", "ھاتھ ھے", "ہاتھ ہے"),
    ("ur", "انھیں تمھارا", "انہیں تمہارا"),
    ("ur", "آۓ", "آئے"),
    ("ur", "اس کے لئے دیکھئے", "اس کے لیے دیکھیے"),
    # half space, space, nothing
    ("fa", "من می\u200cروم", "من می روم"),
    ("fa", "من می\u200cروم", "من میروم"),
    ("fa", "نمی دانم", "نمیدانم"),
    ("fa", "کتاب\u200cهای بزرگ\u200cتر", "کتابهای بزرگتر"),
    ("fa", "کتاب هایشان", "کتاب\u200cهایشان"),
    ("fa", "خانه\u200cی ما", "خانهٔ ما"),
    ("fa", "دانش\u200cآموز", "دانش آموز"),
    ("fa", "رفته\u200cام", "رفته ام"),
    ("fa", "آهن\u200cگر و ستم گری", "آهنگر و ستمگری"),
    ("ur", "علماء کی ابتداء", "علما کی ابتدا"),
    # Devanagari: nasals, nukta, endings
    ("hi", "हिन्दी सम्बन्ध अङ्क चञ्चल ठण्डा", "हिंदी संबंध अंक चंचल ठंडा"),
    ("hi", "ज़रूर क़लम फ़िल्म", "जरूर कलम फिल्म"),
    ("hi", "नहीँ मेँ", "नहीं में"),
    ("hi", "गये नयी चाहिये", "गए नई चाहिए"),
    ("mr", "आनन्द", "आनंद"),
    ("ne", "सङ्गीत", "संगीत"),
    # Bengali
    ("bn", "হঠাত্\u200d", "হঠাৎ"),
    ("bn", "অামি", "আমি"),
    ("bn", "বা\u09dcি হ\u09df", "বাড\u09bcি হয\u09bc"),
    ("bn", "সঙ্গীত রঙ", "সংগীত রং"),
    # Thai and Lao: sara am, sara ae, spaces
    ("th", "น้ำ ทำ", "นํ้าทํา"),
    ("th", "เเปลก", "แปลก"),
    ("th", "ไป โรงเรียน", "ไปโรงเรียน"),
    ("lo", "ນ້ຳ", "ນໍ້າ"),
    # ё, and stress marks
    ("ru", "Ещё мёд идёт", "Еще мед идет"),
    ("ru", "Ста́рый за́мок", "Старый замок"),
    ("uk", "Моя́ украї́нська мо́ва", "Моя українська мова"),
    ("be", "Добра́й ра́ніцы", "Добрай раніцы"),
    ("lt", "Lietuvõs vaikaĩ žaĩdžia", "Lietuvos vaikai žaidžia"),
    ("sl", "dôber dán", "dober dan"),
    # cedilla and comma below
    ("ro", "Oraşul şi ţara", "Orașul și țara"),
    ("tr", "Beș kișilik șehir", "Beş kişilik şehir"),
    ("lv", "k\u0326ieg\u0326elis", "ķieģelis"),
    # place of the tone mark
    ("vi", "Hòa bình và thủy triều khỏe", "Hoà bình và thuỷ triều khoẻ"),
    ("vi", "hòan tòan qúa gìa", "hoàn toàn quá già"),
    ("vi", "chuỵên thủơ tíêng", "chuyện thuở tiếng"),
    ("vi", "Kỹ thuật lý do công ty Mỹ quý", "Kĩ thuật lí do công ti Mĩ quí"),
    ("vi", "ly", "li"),
    # Greek capitals
    ("el", "ΚΑΛΗΜΕΡΑ ΣΑΣ, ΤΟ ΡΟΛΟΪ ΤΟΥ ΜΑΪΟΥ", "Καλημέρα σας, το ρολόι του Μαΐου"),
    ("el", "ἡ ἀρχὴ τοῦ λόγου", "η αρχή του λόγου"),
    # ligatures and width
    ("fr", "Un bœuf et sa sœur, ex æquo", "Un boeuf et sa soeur, ex aequo"),
    ("de", "ﬂinke Aﬀen, große Straße", "flinke Affen, grosse Strasse"),
    ("nl", "\u0132sland is mooi", "IJsland is mooi"),
    ("ar", "ﻻ أعرف", "لا أعرف"),
    ("ja", "ｶﾞﾗｽのＴＶ", "ガラスのTV"),
    ("zh", "ＡＢＣ公司", "ABC公司"),
    ("ko", "ﾡﾢ", "ㄱㄲ"),
    ("uz", "oʻzbek gʻalaba", "o'zbek g'alaba"),
    # and where nobody stated the language
    ("", "الســـلامُ עָלֵיכֶם за́мок şi", "السلام עליכם замок și"),
]  # fmt: skip


@pytest.mark.parametrize(("language", "one", "other"), PAIRS)
def test_a_word_in_another_spelling_is_the_same(language: str, one: str, other: str) -> None:
    assert one != other
    for form in ("NFC", "NFD"):
        found = score(unicodedata.normalize(form, one), other, language)
        assert (found.word_errors, found.char_errors) == (0, 0), normalise(one, language)
        assert found.words == score(other, other, language).words > 0
    assert normalise(normalise(one, language), language) == normalise(one, language)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("ar", "جامعة", "جامع"), ("ar", "ماء", "ما"), ("ar", "سلام", "سلم"), ("ar", "فهم", "فةم"),
        ("fa", "آب", "اب"), ("fa", "می\u200cروم", "نمی\u200cروم"), ("fa", "کتاب\u200cها", "کتاب"),
        ("fa", "بزرگ\u200cتر", "بزرگ\u200cترین"), ("fa", "خانه\u200cای", "خانه\u200cی"),
        ("ur", "ماں", "ما"), ("ur", "آئے", "آے"),
        ("ur", "بھائی", "بہائی"), ("ur", "کھا", "کہا"), ("ur", "گئے", "گے"),
        ("hi", "पेड़", "पेड"), ("hi", "हंस", "हँस"), ("hi", "कंप", "कप"), ("hi", "अन्न", "अंन"),
        ("hi", "ये", "ए"), ("bn", "দিন", "দীন"), ("bn", "সৎ", "সত"),
        ("bn", "রাঙা", "রাংা"), ("vi", "tay", "tai"), ("vi", "túy", "túi"), ("vi", "yêu", "iêu"),
        ("he", "שלום", "שלומ"), ("ru", "всё", "вся"), ("ru", "мой", "мои"), ("uk", "їх", "іх"),
        ("bg", "ѝ", "и"), ("be", "ён", "ен"), ("ro", "fata", "fața"), ("tr", "kis", "kış"),
        ("tr", "kus", "kuş"), ("tr", "ısı", "isi"), ("vi", "hòa", "hóa"), ("vi", "mua", "mưa"),
        ("vi", "của", "cua"), ("el", "φως", "φας"), ("fr", "cote", "côté"), ("fr", "du", "dû"),
        ("es", "ano", "año"), ("pl", "sad", "sąd"), ("hr", "kuca", "kuća"),
        ("lt", "zasis", "žąsis"),
        ("es", "esta", "está"), ("de", "schon", "schön"), ("da", "får", "far"),
    ],
)  # fmt: skip
def test_two_words_stay_two(language: str, one: str, other: str) -> None:
    assert score(one, other, language).word_errors == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("به کتاب\u200cخانه رفت", "به کتابخانه رفت"),
        ("كتاب\u200cخانه\u200cی بزرگ", "کتابخانهٔ بزرگ"),
        ("پیش\u200cنهاد خوب", "پیشنهاد خوب"),
        ("کتاب\u200cخانه و کتاب\u200cخانه", "کتابخانه و کتابخانه"),
    ],
)
@pytest.mark.parametrize("language", ["fa", "fa-IR", "prs"])
def test_a_persian_compound_with_a_half_space_is_the_joined_one(
    language: str, one: str, other: str
) -> None:
    for pair in ((one, other), (other, one)):
        found = score(*pair, language)
        assert (found.word_errors, found.char_errors) == (0, 0)


def test_a_persian_space_still_parts_words() -> None:
    assert score("ما در خانه", "مادر خانه", "fa").word_errors == 2
    assert score("کتاب\u200cخانه", "کتابدار", "fa").word_errors == 2


def test_each_table_folds_to_letters_that_it_leaves() -> None:
    from uttermill.tasks.scoring.normalisers import _spellings

    for spelling in _spellings.SPELLINGS.values():
        letters = dict(spelling.letters)
        assert not {*"".join(letters.values())} & {*letters}
