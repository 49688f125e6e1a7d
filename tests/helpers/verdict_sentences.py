"""The same sentences in languages that are easily taken for each other, and espeak-ng's voices."""

from __future__ import annotations

CLOSE: dict[str, tuple[str, tuple[str, ...]]] = {
    "uk": ("uk", (
        "Учора ми ходили на ринок і купили яблука та хліб.",
        "Поїзд до міста вирушає о сьомій годині ранку.",
        "Моя бабуся жила в маленькому будинку біля річки.",
        "Чи можете ви сказати, де найближча аптека?",
        "Взимку рано темніє, і діти залишаються вдома.",
        "Я прочитав цю книжку двічі, і вона досі мені подобається.",
    )),
    "ru": ("ru", (
        "Вчера мы ходили на рынок и купили яблоки и хлеб.",
        "Поезд в город отправляется в семь часов утра.",
        "Моя бабушка жила в маленьком доме у реки.",
        "Скажите, пожалуйста, где находится ближайшая аптека?",
        "Зимой рано темнеет, и дети остаются дома.",
        "Я прочитал эту книгу дважды, и она мне до сих пор нравится.",
    )),
    "no": ("nb", (
        "I går gikk vi på torget og kjøpte epler og brød.",
        "Toget til byen går klokken sju om morgenen.",
        "Bestemoren min bodde i et lite hus ved elven.",
        "Kan du si meg hvor det nærmeste apoteket er?",
        "Om vinteren blir det tidlig mørkt, og barna holder seg hjemme.",
        "Jeg har lest denne boken to ganger og liker den fortsatt.",
    )),
    "da": ("da", (
        "I går gik vi på torvet og købte æbler og brød.",
        "Toget til byen kører klokken syv om morgenen.",
        "Min bedstemor boede i et lille hus ved åen.",
        "Kan du sige mig, hvor det nærmeste apotek ligger?",
        "Om vinteren bliver det tidligt mørkt, og børnene bliver hjemme.",
        "Jeg har læst denne bog to gange og kan stadig godt lide den.",
    )),
    "pt": ("pt", (
        "Ontem fomos ao mercado e comprámos maçãs e pão.",
        "O comboio para a cidade parte às sete da manhã.",
        "A minha avó morava numa casa pequena perto do rio.",
        "Pode dizer-me onde fica a farmácia mais próxima?",
        "No inverno escurece cedo e as crianças ficam em casa.",
        "Já li este livro duas vezes e ainda gosto dele.",
    )),
    "gl": ("es", (
        "Onte fomos ao mercado e mercamos mazás e pan.",
        "O tren para a cidade sae ás sete da mañá.",
        "A miña avoa vivía nunha casa pequena preto do río.",
        "Pode dicirme onde está a farmacia máis próxima?",
        "No inverno escurece cedo e os nenos quedan na casa.",
        "Xa lin este libro dúas veces e aínda me gusta.",
    )),
    "en": ("en-us", (
        "Yesterday we went to the market and bought apples and bread.",
        "The train to the city leaves at seven in the morning.",
        "My grandmother lived in a small house by the river.",
        "Can you tell me where the nearest pharmacy is?",
        "In winter it gets dark early and the children stay at home.",
        "I have read this book twice and I still like it.",
    )),
}  # fmt: skip
