"""The report is readable by all: axe-core finds no fault, in both colour schemes and two widths
(each scheme in one of the widths, and each night in the other one too).

axe-core comes with the wheel of axe-playwright-python; nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_report_browser import browser, path

pytestmark = [
    pytest.mark.needs("chromium"),
]
__all__ = ["browser", "path"]  # fixtures

SHAPES = [
    ("light", 1400), ("dark", 400),
    pytest.param("dark", 1400, marks=pytest.mark.nightly),
    pytest.param("light", 400, marks=pytest.mark.nightly),
]  # fmt: skip
OPEN = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def audited(browser: Any, page_path: Path, scheme: str, width: int, fault: str = "") -> list[Any]:
    """Violations that axe-core finds; the browser must not complain either."""
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(
        offline=True, color_scheme=scheme, viewport={"width": width, "height": 900},
        bypass_csp=True,  # the page refuses scripts that are not its own
    )  # fmt: skip
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(page_path.as_uri())
    page.evaluate(OPEN)
    if fault:
        page.evaluate(fault)
    wide = page.evaluate("document.documentElement.scrollWidth")
    found = Axe().run(page).response["violations"]
    context.close()
    assert faults == []
    assert wide <= width, "nothing is cut off, and nothing scrolls sideways"
    return [(each["id"], [node["target"] for node in each["nodes"]][:3]) for each in found]


@pytest.mark.parametrize(("scheme", "width"), SHAPES)
def test_no_violation(browser: Any, path: Path, scheme: str, width: int) -> None:
    assert audited(browser, path, scheme, width) == []


@pytest.mark.nightly
def test_control_a_faint_text_is_found(browser: Any, path: Path) -> None:
    faint = "() => { document.querySelector('h2').style.color = '#eee'; }"
    assert [name for name, _ in audited(browser, path, "light", 1400, faint)] == ["color-contrast"]
