"""Whether a reference holds any word.

Transcribers write `[inaudible]`, `<UNK>`, `(laughs)`, `♪` or `...` where they heard no words, or
could not tell them. Such a text says nothing of what is spoken: it is no reference.
"""

from __future__ import annotations

import re

LONGEST_ASIDE = 60  # characters between brackets; what is longer is speech that somebody bracketed
DEEPEST = 3  # brackets in brackets
#: In brackets of these kinds stands what is heard and not said.
_ASIDE = re.compile(
    rf"\[[^\[\]]{{0,{LONGEST_ASIDE}}}\]|<[^<>]{{0,{LONGEST_ASIDE}}}>|\{{[^{{}}]{{0,{LONGEST_ASIDE}}}\}}"
    rf"|\([^()]{{0,{LONGEST_ASIDE}}}\)|（[^（）]{{0,{LONGEST_ASIDE}}}）|【[^【】]{{0,{LONGEST_ASIDE}}}】"
    rf"|［[^［］]{{0,{LONGEST_ASIDE}}}］|〔[^〔〕]{{0,{LONGEST_ASIDE}}}〕"
    rf"|\*+[^*]{{1,{LONGEST_ASIDE}}}\*+"
)
#: What corpora write for an unknown word, noise or silence without brackets.
_BARE = frozenset(("UNK", "SIL", "SPN", "NSN", "NOISE", "xxx"))


def wordless(text: str) -> bool:
    """Whether nothing in a text that is not empty can be spoken: marks, and words in brackets."""
    if text[:1].isalnum():  # most texts
        return text.strip() in _BARE
    rest = text
    for _ in range(DEEPEST):
        rest = _ASIDE.sub(" ", rest)
    rest = rest.strip()
    return rest in _BARE or not any(map(str.isalnum, rest))
