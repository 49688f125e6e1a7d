"""Pages that describe the code say what the code says, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

from tests import pages
from uttermill.tasks.base import shelves
from uttermill.tasks.settings.base import FORMS

PAGES = pages.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_made_parts_are_fresh(page: Path) -> None:
    text = page.read_text()
    assert text == pages.renewed(text), "stale: run `python -m tests.pages`"


def test_the_form_shows_the_settings_of_now() -> None:
    assert FORMS.read_text() == pages.forms_text(), "stale: run `python -m tests.pages`"


def test_control_a_stale_part_is_seen() -> None:
    text = "<!-- made from the code: shelf levels -->\nold\n<!-- end -->"
    assert "loudness_lufs" in pages.renewed(text)


def test_every_shelf_and_room_has_its_page() -> None:
    for shelf in shelves.SHELVES:
        assert (
            f"made from the code: shelf {shelf}"
            in (pages.ROOT / "tasks" / shelf / "README.md").read_text()
        )
    assert "made from the code: modules flows" in (pages.ROOT / "flows/README.md").read_text()


def test_the_first_page_is_short() -> None:
    assert len((pages.ROOT / "README.md").read_text().splitlines()) < 200


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


#: Modules that a page tells its reader to make, or that are the reader's.
TO_BE_MADE = {"tasks/filters/crest.py", "tasks.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_modules_that_a_page_names_exist(page: Path) -> None:
    """A bare name may lie in any folder of the room that the page is about."""
    text = re.sub(r"<!-- made from the code.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    named = set(re.findall(r"`([\w./]+\.(?:py|js|sh|sbatch))`", text)) - TO_BE_MADE
    homes = (page.parent, *(pages.ROOT / top for top in ("", "tasks", "flows", "tests")))
    assert [name for name in sorted(named) if not any(lies_in(name, home) for home in homes)] == []


def lies_in(name: str, home: Path) -> bool:
    if "/" in name or home == pages.ROOT:
        return (home / name).is_file()
    return any(home.rglob(name))


def test_control_a_module_that_is_gone_is_seen() -> None:
    assert not lies_in("gone.py", pages.ROOT / "flows")
    assert not lies_in("cli/tables.py", pages.ROOT / "flows"), "a path is taken as it stands"
    assert lies_in("tables.py", pages.ROOT / "flows")


def test_every_folder_of_tests_is_on_the_map() -> None:
    home = pages.ROOT / "tests"
    text = (home / "README.md").read_text()
    folders = {path.parent.relative_to(home) for path in home.rglob("test_*.py")}
    assert [str(folder) for folder in sorted(folders) if f"`{folder}/`" not in text] == []
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)`", text)
    assert [name for name in named if not (home / name).exists()] == []
