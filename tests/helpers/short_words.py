"""Digits and commands in four languages, and espeak-ng's voice for each."""

SHORT_WORDS = {
    "en": ("en-us+f2", (
        "zero one two three four five six seven eight nine stop go left right up down yes no on off"
    )),
    "de": ("de", (
        "null eins zwei drei vier fünf sechs sieben acht neun stopp los links rechts hoch runter "
        "ja nein an aus"
    )),
    "es": ("es", (
        "cero uno dos tres cuatro cinco seis siete ocho nueve para sigue izquierda derecha arriba "
        "abajo sí no abre cierra"
    )),
    "fr": ("fr", (
        "zéro un deux trois quatre cinq six sept huit neuf stop avance gauche droite haut bas oui "
        "non ouvre ferme"
    )),
}  # fmt: skip
#: Words that are said twice, which must stay so.
TWICE = {"en": ("bye bye", "no no", "yes yes"), "fr": ("oui oui",), "de": ("ja ja",)}
