"""French: hyphens of numbers go with all hyphens; the plural of cent and vingt is folded."""

from tasks.scoring.normalisers import spelt
from tasks.scoring.normalisers._spoken import Reading

READING = Reading(
    decimal="virgule",
    by_figure=False,
    symbols=(("%", "pour cent"), ("€", "euros"), ("$", "dollars"), ("£", "livres")),
    fold=((r"\bcents\b", "cent"), (r"\bquatre vingts\b", "quatre vingt")),
)
normalise = spelt("fr", READING)
