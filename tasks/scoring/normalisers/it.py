"""Italian."""

from tasks.scoring.normalisers import spelt
from tasks.scoring.normalisers._spoken import Reading

READING = Reading(
    decimal="virgola",
    by_figure=False,
    symbols=(("%", "per cento"), ("€", "euro"), ("$", "dollari"), ("£", "sterline")),
    fold=((r"\bpercento\b", "per cento"), (r"tré\b", "tre")),
)
normalise = spelt("it", READING)
