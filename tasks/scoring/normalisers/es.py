"""Spanish: un, uno and una at the end of a number are one form, as figures cannot tell them."""

from tasks.scoring.normalisers import spelt
from tasks.scoring.normalisers._spoken import Reading

READING = Reading(
    decimal="coma",
    by_figure=False,
    symbols=(("%", "por ciento"), ("€", "euros"), ("$", "dólares"), ("£", "libras")),
    fold=(
        (r"\bveinti(?:ún|una)\b", "veintiuno"),
        (r"(?<=nta y )(?:un|una)\b", "uno"),
        (r"cientas\b", "cientos"),
        (r"\bquinientas\b", "quinientos"),
    ),
)
normalise = spelt("es", READING)
