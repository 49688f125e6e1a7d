"""Written and spoken forms of units, clock times, dates, ordinals, telephone numbers, fractions and
sums are one, and other quantities stay apart."""

from __future__ import annotations

import pytest

from uttermill.tasks.scoring.readings import agreed

SAME = {
    "en": """
        The bag weighs 12 kg. | the bag weighs twelve kilograms
        a 2 km walk | a two kilometer walk
        It is 1 km away | it is one kilometre away
        1.5 km | one point five kilometers
        250 ml of milk | two hundred fifty millilitres of milk
        6 ft tall | six feet tall
        20°C | twenty degrees celsius
        20 °C outside | twenty degrees outside
        100 km/h | one hundred kilometers per hour
        100 km/h | one hundred kilometers an hour
        a 5-km run | a five kilometer run
        10 lbs | ten pounds
        8 GB of memory | eight gigabytes of memory
        3 m² | three square meters
        50 m | fifty metres
        30 mins | thirty minutes
        2 hrs | two hours
        5 sec. | five seconds
        16 oz | sixteen ounces
        6'2" | six foot two
        at 7:45 | at quarter to eight
        at 7:45 | at seven forty five
        at 7:40 | at twenty to eight
        at 7:20 | at twenty past seven
        at 7:10 | at ten past seven
        at 7:50 p.m. | at ten to eight p m
        at 5 p.m. | at five pm
        at 12:00 | at twelve o'clock
        at 14:30 | at fourteen thirty
        at 7:15 | at a quarter past seven
        May 3rd | may third
        May 3 | may third
        the 21st century | the twenty first century
        the 2nd floor | the second floor
        on 3 May | on the third of may
        call 555-0142 | call five five five zero one four two
        (555) 013-8247 | five five five zero one three eight two four seven
        555-0142 | five five five oh one four two
        dial 911 | dial nine one one
        +44 20 7946 0958 | plus four four two zero seven nine four six zero nine five eight
        555-0011 | five five five double oh double one
        1/2 a cup | half a cup
        half an hour | ½ an hour
        3/4 cup | three quarters of a cup
        3/4 cup | three quarter cup
        2/3 of them | two thirds of them
        1 1/2 hours | one and a half hours
        1/8 inch | one eighth of an inch
        5/8 | five eighths
        $5.99 | five dollars and ninety nine cents
        $20 | twenty dollars
        20% | twenty percent
        £3.50 | three pounds fifty
        He ran 5 km. | he ran five kilometres
        10 lb of rice | ten pounds of rice
        60 mph | sixty miles per hour
        at 9:30 am | at nine thirty a m
        at 13:30 | at half past one
        7:05 | seven oh five
        call 555-0142 | call five five five oh one four two
        ½ cup | half a cup
        2 1/2 cups | two and a half cups
        $3.50 | three dollars fifty
    """,
    "de": """
        5 km | fünf Kilometer
        5 kg Mehl | fünf Kilo Mehl
        1 kg | ein Kilogramm
        2 l Milch | zwei Liter Milch
        20 °C | zwanzig Grad Celsius
        20 °C | zwanzig Grad
        100 km/h | hundert Kilometer pro Stunde
        100 km/h | einhundert Stundenkilometer
        120 km/h | hundertzwanzig Kilometer die Stunde
        30 Min. | dreißig Minuten
        2 Std. | zwei Stunden
        10 Sek. | zehn Sekunden
        2,5 m | zwei Komma fünf Meter
        3 Mio. Euro | drei Millionen Euro
        5-km-Lauf | fünf Kilometer Lauf
        8 GB | acht Gigabyte
        60 m² | sechzig Quadratmeter
        um 9:30 Uhr | um halb zehn
        um 9.30 Uhr | um neun Uhr dreißig
        um 9:45 Uhr | um Viertel vor zehn
        um 9:45 Uhr | um drei viertel zehn
        um 9:20 Uhr | um zwanzig nach neun
        um 9:40 Uhr | um zwanzig vor zehn
        um 9:10 Uhr | um zehn nach neun
        um 9:50 Uhr | um zehn vor zehn
        um 9:25 Uhr | um fünf vor halb zehn
        um 1 Uhr | um ein Uhr
        um 13 Uhr | um dreizehn Uhr
        um 13:00 Uhr | um dreizehn Uhr
        um 13:30 | um halb zwei
        um 9 Uhr 30 | um neun Uhr dreißig
        um 20:15 Uhr | um zwanzig Uhr fünfzehn
        3. Mai | dritten Mai
        der 3. Mai | der dritte Mai
        am 21. Juni | am einundzwanzigsten Juni
        der 2. Weltkrieg | der zweite Weltkrieg
        im 19. Jahrhundert | im neunzehnten Jahrhundert
        zum 1. Mal | zum ersten Mal
        Heinrich der 8. | Heinrich der achte
        am 3.5. | am dritten fünften
        am 03.05.2020 | am dritten fünften zweitausendzwanzig
        0171 2345678 | null eins sieben eins zwei drei vier fünf sechs sieben acht
        555-0142 | fünf fünf fünf null eins vier zwei
        030/901820 | null drei null neun null eins acht zwei null
        Wählen Sie 110 | Wählen Sie eins eins null
        ½ Liter | ein halber Liter
        eine ½ Stunde | eine halbe Stunde
        1 ½ Stunden | eineinhalb Stunden
        1 1/2 Stunden | anderthalb Stunden
        2 1/2 Stunden | zweieinhalb Stunden
        3/4 Liter | drei Viertel Liter
        1/4 Pfund | ein viertel Pfund
        2/3 der Leute | zwei Drittel der Leute
        1/8 Liter | ein Achtel Liter
        20 % | zwanzig Prozent
        5 € | fünf Euro
        um 9:30 Uhr | um neun Uhr dreißig
        um 8:15 Uhr | um Viertel nach acht
        1,5 l | ein Komma fünf Liter
        3 m² | drei Quadratmeter
        3,50 € | drei Euro fünfzig
    """,
    "es": """
        5 km | cinco kilómetros
        1 kg de arroz | un kilo de arroz
        2 l de agua | dos litros de agua
        20 °C | veinte grados
        100 km/h | cien kilómetros por hora
        30 min | treinta minutos
        2 h | dos horas
        1,5 l | uno coma cinco litros
        1,5 l | un litro y medio
        21 km | veintiún kilómetros
        60 m² | sesenta metros cuadrados
        8 GB | ocho gigabytes
        10 cm | diez centímetros
        a las 9:30 | a las nueve y media
        a las 9:30 | a las nueve y treinta
        a las 9:15 | a las nueve y cuarto
        a las 9:45 | a las diez menos cuarto
        a las 9:45 | a las nueve y cuarenta y cinco
        a las 9:20 | a las nueve y veinte
        a las 9:40 | a las diez menos veinte
        a las 9:50 | a las diez menos diez
        a las 9:05 | a las nueve y cinco
        a la 1:00 | a la una
        a la 1 | a la una
        a las 14:30 | a las catorce treinta
        a las 9.30 h | a las nueve y media
        a las 9:30 p. m. | a las nueve y media p m
        el 1 de mayo | el primero de mayo
        el 3 de mayo | el tres de mayo
        el 1.º de mayo | el primero de mayo
        la 2.ª planta | la segunda planta
        el 3er piso | el tercer piso
        el 4º piso | el cuarto piso
        la 1ª vez | la primera vez
        555-0142 | cinco cinco cinco cero uno cuatro dos
        555 01 42 | cinco cinco cinco cero uno cuarenta y dos
        llame al 112 | llame al uno uno dos
        llame al 112 | llame al ciento doce
        1/2 kilo | medio kilo
        ½ hora | media hora
        1/4 de hora | un cuarto de hora
        3/4 de hora | tres cuartos de hora
        2/3 | dos tercios
        1 1/2 horas | una hora y media
        2 ½ | dos y medio
        1/5 | un quinto
        20 % | veinte por ciento
        3,50 € | tres euros con cincuenta
        5 € | cinco euros
        a la 1:30 | a la una y media
        2 kg | dos kilos
    """,
    "fr": """
        5 km | cinq kilomètres
        1 kg de riz | un kilo de riz
        2 l d'eau | deux litres d'eau
        20 °C | vingt degrés
        100 km/h | cent kilomètres heure
        100 km/h | cent kilomètres à l'heure
        30 min | trente minutes
        2 h | deux heures
        1,5 l | un virgule cinq litre
        1,5 l | un litre et demi
        60 m² | soixante mètres carrés
        10 cm | dix centimètres
        8 Go | huit gigaoctets
        9 h 30 | neuf heures et demie
        9h30 | neuf heures trente
        9 h 15 | neuf heures et quart
        9 h 15 | neuf heures quinze
        9 h 45 | dix heures moins le quart
        9 h 45 | dix heures moins quart
        9 h 40 | dix heures moins vingt
        9 h 50 | dix heures moins dix
        9 h 20 | neuf heures vingt
        9 h | neuf heures
        à 9:30 | à neuf heures trente
        14 h 30 | quatorze heures trente
        21 h | vingt et une heures
        1 h du matin | une heure du matin
        le 1er mai | le premier mai
        le 2e étage | le deuxième étage
        la 2nde fois | la seconde fois
        le 3ème homme | le troisième homme
        la 1re fois | la première fois
        le 19e siècle | le dix-neuvième siècle
        01 42 55 01 42 | zéro un quarante-deux cinquante-cinq zéro un quarante-deux
        555-0142 | cinq cinq cinq zéro un quatre deux
        composez le 15 | composez le quinze
        composez le 112 | composez le cent douze
        1/2 litre | un demi-litre
        ½ heure | une demi-heure
        1/2 tasse | une demi tasse
        3/4 d'heure | trois quarts d'heure
        1/4 d'heure | un quart d'heure
        2/3 des gens | deux tiers des gens
        1 ½ heure | une heure et demie
        2 1/2 | deux et demi
        1/5 | un cinquième
        20 % | vingt pour cent
        3,50 € | trois euros cinquante
        5 € | cinq euros
        à 9 h 30 | à neuf heures trente
    """,
    "it": """
        5 km | cinque chilometri
        1 kg di riso | un chilo di riso
        2 l d'acqua | due litri d'acqua
        20 °C | venti gradi
        100 km/h | cento chilometri all'ora
        100 km/h | cento chilometri orari
        30 min | trenta minuti
        2 h | due ore
        1,5 l | uno virgola cinque litri
        1,5 l | un litro e mezzo
        60 m² | sessanta metri quadrati
        60 mq | sessanta metri quadri
        10 cm | dieci centimetri
        8 GB | otto gigabyte
        alle 9:30 | alle nove e trenta
        alle 9:30 | alle nove e mezza
        alle 9.30 | alle nove e trenta
        alle ore 9:30 | alle ore nove e trenta
        alle 9:15 | alle nove e un quarto
        alle 9:15 | alle nove e quindici
        alle 9:45 | alle dieci meno un quarto
        alle 9:45 | alle nove e tre quarti
        alle 9:40 | alle dieci meno venti
        alle 9:50 | alle dieci meno dieci
        alle 9:20 | alle nove e venti
        alle 14:30 | alle quattordici e trenta
        alle 9:00 | alle nove
        il 1° maggio | il primo maggio
        il 1 maggio | il primo maggio
        il 2° piano | il secondo piano
        la 3a volta | la terza volta
        la 3ª volta | la terza volta
        555-0142 | cinque cinque cinque zero uno quattro due
        02 5550142 | zero due cinque cinque cinque zero uno quattro due
        chiami il 112 | chiami il centododici
        1/2 litro | mezzo litro
        ½ ora | mezza ora
        3/4 d'ora | tre quarti d'ora
        1/4 d'ora | un quarto d'ora
        2/3 | due terzi
        1 ½ | uno e mezzo
        2 1/2 ore | due ore e mezza
        1/5 | un quinto
        20 % | venti per cento
        3,50 € | tre euro e cinquanta
        5 € | cinque euro
    """,
    "zh": """
        5 km | 五公里
        5公里 | 五公里
        5km | 五千米
        1.5 kg | 一点五公斤
        3 kg | 三千克
        2 L | 两升
        20℃ | 二十摄氏度
        20 °C | 二十度
        100 km/h | 一百公里每小时
        100 km/h | 每小时一百公里
        100公里/小时 | 每小时一百公里
        30 min | 三十分钟
        60 m² | 六十平方米
        60㎡ | 六十平方米
        10cm | 十厘米
        8GB | 八吉字节
        9:30 | 九点三十分
        9:30 | 九点三十
        9:30 | 九点半
        9点30分 | 九点半
        9:15 | 九点一刻
        9:45 | 九点三刻
        9:05 | 九点零五分
        9:05 | 九点零五
        9:50 | 差十分十点
        9:00 | 九点整
        9:00 | 九点钟
        14:30 | 下午两点半
        14:30 | 十四点三十分
        2:30 | 两点半
        5月3日 | 五月三号
        5月3日 | 五月三日
        第3名 | 第三名
        2020年 | 二零二零年
        2楼 | 二楼
        555-0142 | 五五五零一四二
        138 0013 8000 | 幺三八零零幺三八零零零
        拨打110 | 拨打幺幺零
        拨打12345 | 拨打幺二三四五
        010-62345678 | 零幺零六二三四五六七八
        1/2 | 二分之一
        1/2杯 | 半杯
        半小时 | 1/2小时
        3/4 | 四分之三
        2/3的人 | 三分之二的人
        1 1/2小时 | 一个半小时
        2.5小时 | 两个半小时
        1/5 | 五分之一
        20% | 百分之二十
        3.5元 | 三块五
        3.50元 | 三元五角
        5元 | 五块
        ¥5 | 五元
        3kg | 三公斤
    """,
}
APART = {
    "en": """
        5 km | five
        5 kg | five kilometers
        5 km | fifteen kilometers
        7:45 | quarter to seven
        7:40 | twenty past seven
        7:50 | ten to seven
        7:20 | twenty to seven
        May 3rd | may fourth
        May 3 | may thirteenth
        the 2nd floor | the third floor
        555-0142 | five five five zero one four three
        555-0011 | five five five double oh one
        1/2 cup | a quarter cup
        3/4 cup | two thirds of a cup
        1 1/2 hours | two and a half hours
        $5.99 | nine ninety five
        $5 | five euros
        12:00 | midnight
        5 p.m. | five a m
        half a cup | a cup
        5 m | five minutes
        1/8 inch | one eighteenth inch
        5 km | five miles
        5 km | six kilometers
        9:30 | nine thirteen
        1/2 cup | a third of a cup
        2 in the box | two inches the box
        1 m | one minute
        May 3 | march third
        1 1/2 | one and a third
        2-in-1 | two inch one
    """,
    "de": """
        5 km | fünf Meter
        5 km | fünfzig Kilometer
        9:30 Uhr | halb neun
        9:45 Uhr | Viertel vor neun
        9:40 Uhr | zwanzig nach neun
        9:10 Uhr | zehn vor neun
        9:25 Uhr | fünf nach halb zehn
        3. Mai | dreizehnten Mai
        3. Mai | drei Mai ist
        am 3.5. | am dritten sechsten
        030/901820 | null drei null neun null eins acht zwei eins
        1 1/2 Stunden | zweieinhalb Stunden
        1/8 Liter | ein Viertel Liter
        ½ Liter | ein Liter
        5 € | fünf Dollar
        5 m | fünf Minuten
        am 3. Mai | am vierten Mai
        um 9:30 Uhr | um zehn Uhr dreißig
        am 3.5. | am fünften dritten
        1 1/2 Liter | ein Liter
    """,
    "es": """
        5 km | cincuenta kilómetros
        9:45 | nueve menos cuarto
        9:40 | nueve menos veinte
        9:20 | diez menos veinte
        el 1 de mayo | el tercero de mayo
        la 2ª planta | la tercera planta
        555 01 42 | cinco cinco cinco cero uno cuarenta y tres
        1/2 kilo | un kilo
        1/5 | un cuarto
        1,5 l | dos litros y medio
        3,50 € | tres euros con quince
        5 km | cinco metros
        1 kg | un gramo
        9:05 | nueve y cincuenta
    """,
    "fr": """
        5 km | cinquante kilomètres
        9 h 45 | neuf heures moins le quart
        9 h 40 | neuf heures moins vingt
        9 h 30 | neuf heures et quart
        le 1er mai | le deuxième mai
        01 42 55 01 42 | zéro un quarante-deux cinquante-cinq zéro un quarante-trois
        1/2 litre | un litre
        1/5 | un quart
        12 h | minuit
        1,5 l | deux litres et demi
        9h30 | neuf heures
        21 h | vingt heures
    """,
    "it": """
        5 km | cinquanta chilometri
        9:45 | nove meno un quarto
        9:40 | nove meno venti
        9:30 | nove e un quarto
        il 1° maggio | il secondo maggio
        555-0142 | cinque cinque cinque zero uno quattro tre
        1/2 litro | un litro
        1/5 | un quarto
        1,5 l | due litri e mezzo
        3,50 € | tre euro e quindici
        5 kg | cinque grammi
        1 kg | un grammo
    """,
    "zh": """
        5 km | 五十公里
        5 km | 五米
        9:45 | 九点一刻
        9:30 | 十点半
        9:50 | 差十分九点
        14:30 | 下午四点半
        5月3日 | 五月四号
        1/2杯 | 一杯
        1/5 | 四分之一
        拨打110 | 拨打幺幺九
        2.5小时 | 三个半小时
        3.50元 | 三元五分
        9:30 | 九点
        9:05 | 九点五十分
        14:30 | 上午两点半
        3.5元 | 三块五毛五
    """,
}


def _pairs(table: dict[str, str]) -> list[tuple[str, ...]]:
    return [
        (language, *line.strip().split(" | "))
        for language, lines in table.items()
        for line in lines.strip().splitlines()
    ]


@pytest.mark.parametrize(("language", "written", "said"), _pairs(SAME))
def test_written_and_spoken_forms_are_one(language: str, written: str, said: str) -> None:
    for pair in ((written, said), (said, written)):
        reference, hypothesis = agreed(*pair, language)
        assert reference == hypothesis


@pytest.mark.parametrize(("language", "written", "said"), _pairs(APART))
def test_other_quantities_stay_apart(language: str, written: str, said: str) -> None:
    for pair in ((written, said), (said, written)):
        reference, hypothesis = agreed(*pair, language)
        assert reference != hypothesis
