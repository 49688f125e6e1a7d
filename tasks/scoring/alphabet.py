"""The tokens of a CTC model, and texts spelled with them."""

from collections.abc import Iterator
from dataclasses import dataclass

from .normalisers import training_text

#: Tokens for the space between two words.
SPACES = ("|", "▁", "<space>", " ")


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The tokens of a CTC model in the order of its scores, and the number of the blank."""

    tokens: tuple[str, ...]
    blank: int


class Spelling:
    """Words as tokens of an alphabet: of letters, or of pieces that begin words with `▁`."""

    def __init__(self, alphabet: Alphabet) -> None:
        self._numbers = {token: n for n, token in enumerate(alphabet.tokens)}
        #: Tokens without sound.
        self.silent = [alphabet.blank, *(n for t, n in self._numbers.items() if t in SPACES)]
        spelled = {t for n, t in enumerate(alphabet.tokens) if n != alphabet.blank}
        self._upper = not any(t.islower() for t in spelled if not t.startswith(("<", "[")))
        self._pieces = any(len(t) > 1 and t.startswith("▁") for t in spelled)
        space = None if self._pieces else next((t for t in SPACES if t in spelled), None)
        #: The token between two words; empty if there is none, or the first piece of a word marks
        #: it.
        self.space = [] if space is None else [self._numbers[space]]
        self._longest = max(map(len, spelled), default=1)

    def words(self, sentence: str, language: str) -> list[list[int]]:
        """Tokens of each word, none empty; all but the last include the following space."""
        words = [[*self._word(word, True)] for word in self._plain(sentence, language)]
        words = [word for word in words if word]
        return [word + self.space for word in words[:-1]] + words[-1:]

    def word(self, word: str, language: str, after_space: bool) -> list[int]:
        """Tokens of a word of a text, as spoken: "2" may be a word or several. Empty if none of its
        characters has a token."""
        parts = [
            [*self._word(part, after_space or n > 0)]
            for n, part in enumerate(self._plain(word, language))
        ]
        tokens: list[int] = []
        for part in filter(None, parts):
            tokens += [*(self.space if tokens else ()), *part]
        return tokens

    def _plain(self, text: str, language: str) -> list[str]:
        plain = training_text(text, language)
        return (plain.upper() if self._upper else plain).split()

    def _word(self, word: str, after_space: bool) -> Iterator[int]:
        """The longest token at each position; characters without a token are skipped."""
        rest = f"▁{word}" if self._pieces and after_space else word
        while rest:
            lengths = range(min(self._longest, len(rest)), 0, -1)
            length = next((n for n in lengths if rest[:n] in self._numbers), 0)
            if length:
                yield self._numbers[rest[:length]]
            rest = rest[max(length, 1) :]
