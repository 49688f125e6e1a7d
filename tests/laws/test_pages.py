"""Pages that describe the code say what the code says, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.base import shelves
from tasks.settings.base import FORMS
from tests import pages

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
    for page in ("tasks/map.md", "flows/README.md"):
        room = page.partition("/")[0]
        assert f"made from the code: modules {room}" in (pages.ROOT / page).read_text()


def test_the_first_page_is_short() -> None:
    assert len((pages.ROOT / "README.md").read_text().splitlines()) < 200


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(pages.ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


def test_every_folder_of_tests_is_on_the_map() -> None:
    home = pages.ROOT / "tests"
    text = (home / "README.md").read_text()
    folders = {path.parent.relative_to(home) for path in home.rglob("test_*.py")}
    assert [str(folder) for folder in sorted(folders) if f"`{folder}/`" not in text] == []
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)`", text)
    assert [name for name in named if not (home / name).exists()] == []
