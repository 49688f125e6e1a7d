"""Word and character error rates of texts in any script, as exact counts that can be summed."""

from ._plain import MARKS, UNSPACED, UNSPACED_CHARACTER
from .cleaning import clean, unmarked, wordless
from .normalisers import figures_read, normalise, training_text
from .rates import Score, language_of, score, scored, total, words
from .said import said, spoken
