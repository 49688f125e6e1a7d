"""Texts with figures or capitals as a recogniser writes them, and their spoken forms."""

from __future__ import annotations

#: By kind: written, said.
Pairs = dict[str, tuple[str, str]]

#: By language: espeak-ng's voice, and the pairs.
NUMBERS: dict[str, tuple[str, Pairs]] = {
    "en": ("en-us", {
        "number": ("We saw 1,250 of them.", "We saw one thousand two hundred fifty of them."),
        "date": ("It was 03/05/2016.", "It was May third two thousand sixteen."),
        "time": ("at 14:35", "at fourteen thirty five"),
        "price": ("$3.50", "three dollars fifty"),
        "code": ("66218688", "six six two one eight six eight eight"),
        "phone": ("555-013-8247", "five five five zero one three eight two four seven"),
        "letters": ("Dial MISDN now.", "Dial em eye ess dee en now."),
    }),
    "de": ("de", {
        "number": ("Es waren 1.250.", "Es waren eintausend zweihundertfünfzig."),
        "date": ("am 03.05.2016", "am dritten Mai zweitausendsechzehn"),
        "time": ("um 14:35", "um vierzehn Uhr fünfunddreißig"),
        "price": ("3,50 €", "drei Euro fünfzig"),
        "code": ("66218688", "sechs sechs zwei eins acht sechs acht acht"),
        "phone": ("0711-138247", "null sieben eins eins eins drei acht zwei vier sieben"),
        "letters": ("Mein BMW und dein ADHS.", "Mein be em we und dein a de ha es."),
    }),
    "fr": ("fr", {
        "number": ("Ils étaient 1 250.", "Ils étaient mille deux cent cinquante."),
        "date": ("le 03/05/2016", "le trois mai deux mille seize"),
        "time": ("à 14:35", "à quatorze heures trente cinq"),
        "price": ("3,50 €", "trois euros cinquante"),
        "code": ("66218688", "six six deux un huit six huit huit"),
        "phone": ("01-38-24-70-95", "zéro un trois huit deux quatre sept zéro neuf cinq"),
        "letters": ("La SNCF et le TGV.", "La esse enne cé effe et le té gé vé."),
    }),
    "es": ("es", {
        "number": ("Eran 1.250.", "Eran mil doscientos cincuenta."),
        "date": ("el 03/05/2016", "el tres de mayo de dos mil dieciséis"),
        "time": ("a las 14:35", "a las catorce treinta y cinco"),
        "price": ("3,50 €", "tres euros cincuenta"),
        "code": ("66218688", "seis seis dos uno ocho seis ocho ocho"),
        "phone": ("913-82-47-09", "nueve uno tres ocho dos cuatro siete cero nueve"),
        "letters": ("El DVD y la ONG.", "El de uve de y la o ene ge."),
    }),
    "it": ("it", {
        "number": ("Erano 1.250.", "Erano milleduecentocinquanta."),
        "date": ("il 03/05/2016", "il tre maggio duemilasedici"),
        "time": ("alle 14:35", "alle quattordici e trentacinque"),
        "price": ("3,50 €", "tre euro e cinquanta"),
        "code": ("66218688", "sei sei due uno otto sei otto otto"),
        "phone": ("02-138247", "zero due uno tre otto due quattro sette"),
        "letters": ("Il DVD e la RSU.", "Il di vu di e la erre esse u."),
    }),
    "pt": ("pt", {
        "number": ("Eram 1.250.", "Eram mil duzentos e cinquenta."),
        "date": ("em 03/05/2016", "em três de maio de dois mil e dezasseis"),
        "time": ("às 14:35", "às catorze e trinta e cinco"),
        "price": ("3,50 €", "três euros e cinquenta"),
        "code": ("66218688", "seis seis dois um oito seis oito oito"),
        "phone": ("21-138-2470", "dois um um três oito dois quatro sete zero"),
        "letters": ("O DVD e a RTP.", "O dê vê dê e a erre tê pê."),
    }),
    "ru": ("ru", {
        "number": ("Их было 1250.", "Их было тысяча двести пятьдесят."),
        "date": ("03.05.2016", "третье мая две тысячи шестнадцатого"),
        "time": ("в 14:35", "в четырнадцать тридцать пять"),
        "price": ("3,50 $", "три доллара пятьдесят"),
        "code": ("66218688", "шесть шесть два один восемь шесть восемь восемь"),
        "phone": ("495-138-24-70", "четыре девять пять один три восемь два четыре семь ноль"),
        "letters": ("Это МГУ и ФСБ.", "Это эм гэ у и эф эс бэ."),
    }),
    "zh": ("cmn", {
        "number": ("一共1250个", "一共一千二百五十个"),
        "date": ("2016年5月3日", "二零一六年五月三日"),
        "time": ("在14:35", "在十四点三十五分"),
        "price": ("3.5元", "三点五元"),
        "code": ("66218688", "六六二一八六八八"),
        "phone": ("138-0013-8247", "幺三八零零幺三八二四七"),
        "letters": ("打开USB", "打开优艾斯比"),
    }),
    "ja": ("ja", {
        "number": ("1250人です", "千二百五十人です"),
        "date": ("2016年5月3日", "二千十六年五月三日"),
        "time": ("14:35です", "十四時三十五分です"),
        "price": ("350円です", "三百五十円です"),
        "code": ("66218688", "六六二一八六八八"),
        "phone": ("090-1382-4709", "零九零一三八二四七零九"),
        "letters": ("USBです", "ゆえすびです"),
    }),
    "ko": ("ko", {
        "number": ("1250명입니다", "천이백오십명입니다"),
        "date": ("2016년 5월 3일", "이천십육년 오월 삼일"),
        "time": ("14:35에", "십사시 삼십오분에"),
        "price": ("3500원입니다", "삼천오백원입니다"),
        "code": ("66218688", "육 육 이 일 팔 육 팔 팔"),
        "phone": ("010-1382-4709", "영 일 영 일 삼 팔 이 사 칠 영 구"),
        "letters": ("USB 입니다", "유 에스 비 입니다"),
    }),
}  # fmt: skip
