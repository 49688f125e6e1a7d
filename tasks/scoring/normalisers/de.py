"""German: "1990" is neunzehnhundertneunzig; (ein)hundert and (ein)tausend are one number."""

from tasks.scoring.normalisers import spelt
from tasks.scoring.normalisers._spoken import Reading

READING = Reading(
    decimal="Komma",
    years=True,
    symbols=(("%", "Prozent"), ("€", "Euro"), ("$", "Dollar"), ("£", "Pfund")),
    fold=(
        (r"\bein(?=hundert|tausend)", ""),
        (r"(?<=tausend)ein(?=hundert)", ""),
        (r"\bzwo\b", "zwei"),
    ),
)
normalise = spelt("de", READING)
