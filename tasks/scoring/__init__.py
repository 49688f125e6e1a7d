"""Word and character error rates of texts in any script, as exact counts that can be summed."""

from tasks.scoring._plain import MARKS, UNSPACED, UNSPACED_CHARACTER
from tasks.scoring.cleaning import clean, unmarked, wordless
from tasks.scoring.normalisers import figures_read, normalise, training_text
from tasks.scoring.rates import Score, language_of, score, scored, total, words
from tasks.scoring.said import said, spoken
