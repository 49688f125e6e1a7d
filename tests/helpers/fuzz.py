"""How many cases a fuzz test tries: few in the suite, many by `--hypothesis-profile=deep`."""

from hypothesis import settings

DEEP = "deep"
FEWER = 2  # an ordinary run divides the cases of a test by this
FACTOR = 20  # a deep run tries so many times the cases of a test

settings.register_profile(DEEP, deadline=None)


def is_deep() -> bool:
    return settings.get_current_profile_name() == DEEP


def count(cases: int) -> int:
    return cases * FACTOR if is_deep() else cases


def cases(number: int) -> settings:
    """A decorator for `@given`: so many examples, however long one takes."""
    examples = count(number) if is_deep() else number // FEWER
    return settings(max_examples=examples, deadline=None)
