"""Digits and commands in four languages, and espeak-ng's voices for them."""

SHORT_WORDS = {
    "en": (("en-us", "en-us+f2"), (
        "zero one two three four five six seven eight nine stop go left right up down yes no on off"
    )),
    "de": (("de", "de+f2"), (
        "null eins zwei drei vier fünf sechs sieben acht neun stopp los links rechts hoch runter "
        "ja nein an aus"
    )),
    "es": (("es", "es+f2"), (
        "cero uno dos tres cuatro cinco seis siete ocho nueve para sigue izquierda derecha arriba "
        "abajo sí no abre cierra"
    )),
    "fr": (("fr", "fr+f2"), (
        "zéro un deux trois quatre cinq six sept huit neuf stop avance gauche droite haut bas oui "
        "non ouvre ferme"
    )),
}  # fmt: skip
#: Words that are said twice, which must stay so.
TWICE = {"en": ("bye bye", "no no", "yes yes"), "fr": ("oui oui",), "de": ("ja ja",)}
