"""A browser opens the report from the disk, offline: it draws, plays, logs no error. All can
read it: axe-core finds no fault in both colour schemes and two widths.

Needs Debian's `chromium-headless-shell` or `chromium`; Playwright's own driver comes with its wheel
and downloads nothing.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from tests.helpers.fetched import CHROMIUM
from tests.insight.test_report import EVIL, job_of, recorded
from uttermill.tasks.settings import TranscribeSettings

REBOUND = "evil.example"  # the browser is told that it is this machine
#: The shell is the same engine without windows and their toolbars, which take each context of the
#: whole browser half a second of CPU.
#: As root and without a network: no sandbox, and nothing that looks for hosts at its start. Without
#: a sound device, since PulseAudio would leave a folder behind.
FLAGS = [
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
    "--no-sandbox", "--disable-audio-output", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip
pytestmark = [pytest.mark.needs("chromium")]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with kept and rejected clips, and names that try to be markup."""
    from uttermill.flows.run import report

    tmp = tmp_path_factory.mktemp("browser")
    corpus.make(tmp / "in", 6)
    (tmp / "in" / "r05.wav").write_bytes(b"this is no audio")
    corpus.listed(tmp / "in", 6, tmp / "list.jsonl", r04=EVIL)
    several = [
        {"use": "tests.plugins.erring_asr", "name": name, "wrong": n} for n, name in enumerate("ab")
    ]
    verdicts = [*TranscribeSettings().verdicts, {"use": "agreement", "min": 0.0}]
    heard = {"backend": several[0], "backends": several, "verdicts": verdicts}
    job = job_of(tmp, filter=corpus.filters({"use": "loudness"}, min=0.7), transcribe=heard)
    folder = recorded(job)
    page = folder / "report.html"
    page.write_bytes(report.page(job, folder))
    return page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    home = tmp_path_factory.mktemp("chromium")
    env: dict[str, str | float | bool] = {**os.environ, "HOME": str(home)}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, env=env)
        yield browser
        browser.close()


@pytest.fixture
def scheme() -> str:
    """Of the page's colours; a test of what depends on them has it as a parameter."""
    return "light"


both_schemes = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.fixture
def page(scheme: str, browser: Any, path: Path) -> Iterator[Any]:
    """The report, open; anything that the browser complains about fails the test."""
    context = browser.new_context(
        offline=True, color_scheme=scheme, viewport={"width": 1280, "height": 900}
    )
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda r: faults.append(r.url[:80])
            if not r.url.startswith(("file:", "data:")) else None)  # fmt: skip
    page.set_default_timeout(120_000)
    page.goto(path.as_uri())
    yield page
    context.close()
    assert faults == []


def wait(page: Any, condition: str) -> None:
    """Until a condition holds; Playwright's own way evaluates texts, which the page forbids."""
    for _ in range(2000):
        if page.evaluate(f"() => {condition}"):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not within 100 s: {condition}")


@pytest.mark.nightly
def test_a_clip_plays(page: Any) -> None:
    page.locator("select:has(option[value=packaged])").first.select_option("packaged")
    audio = page.locator("tr[data-reason=packaged]:visible audio").first
    audio.scroll_into_view_if_needed()
    audio.evaluate("it => it.play()")
    wait(page, "[...document.querySelectorAll('audio')].some(a => a.currentTime > 0.05)")
    assert audio.evaluate("it => it.duration") == pytest.approx(1.5, abs=1.0)
    assert audio.evaluate("it => it.error") is None
    # A rejected one is heard too, and the first one stops.
    page.get_by_role("link", name="too_short").click()
    other = page.locator("tr[data-reason='filter.too_short'] audio").first
    other.evaluate("it => it.play()")
    wait(
        page, "document.querySelector('tr[data-reason=\"filter.too_short\"] audio').duration > 0.3"
    )
    assert audio.evaluate("it => it.paused")


def test_a_limit_moves_by_keyboard(page: Any) -> None:
    figure = page.locator("figure[data-measure=duration]")
    assert figure.locator("svg rect").count() > 0
    assert figure.locator("svg .today").count() == 1  # 30 s lies beyond all values
    slider = figure.locator("input[type=range]").first
    effect = figure.locator(".effect").first
    assert "as it is" in effect.inner_text()
    slider.focus()
    page.keyboard.press("Home")  # no lower limit
    assert figure.locator(".value").first.inner_text() == "any"
    assert "+2 utterances" in effect.inner_text()
    assert "+2 utterances" in slider.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    assert figure.locator("svg .moved").count() == 1
    page.get_by_role("button", name="Limits as they are").click()
    assert "as it is" in effect.inner_text()
    assert figure.locator("svg .moved").count() == 0


def test_a_reason_shows_its_clips(page: Any) -> None:
    rows = page.locator("tr[data-reason]")
    every = rows.count()
    page.get_by_role("link", name="unreadable").click()
    shown = page.locator("tr[data-reason]:visible")
    assert [r.get_attribute("data-reason") for r in shown.all()] == ["shard.unreadable"]
    assert "No player: it failed" in shown.first.inner_text()
    page.get_by_label("Clips").select_option("")
    assert page.locator("tr[data-reason]:visible").count() == every
    assert page.get_by_role("status").inner_text() == f"{every} shown"


@both_schemes
def test_all_images_load_and_nothing_overflows(page: Any) -> None:
    page.get_by_label("Clips").select_option("")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    wait(page, "[...document.images].every(i => i.complete && i.naturalWidth === 320)")
    page.evaluate("document.querySelector('.tiles strong').textContent = '1,234,567 recordings'")
    for width in (1400, 1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        tiles = page.locator(".tiles li")
        assert tiles.evaluate_all("all => all.filter(it => it.scrollWidth > it.clientWidth)") == []
    assert (
        page.evaluate("document.querySelectorAll('img:not([alt]), svg:not([aria-label])').length")
        == 0
    )


@pytest.mark.nightly
def test_names_of_reasons_break_between_words(page: Any) -> None:
    """At 400 px they broke anywhere: language_uncertai, n."""
    names = page.locator(".loss .label a, .broken td:nth-child(2), .badge").evaluate_all(
        "all => all.map(each => each.innerHTML).filter(each => each.includes('_'))"
    )
    assert names
    assert not [name for name in names if "_" in name.replace("_<wbr>", "")]


#: The least contrast of words against what is behind them, over the whole page (WCAG 2, 1.4.3).
CONTRAST = """() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const c = parse(getComputedStyle(at).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  let least = [21, ""];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || e.disabled || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(e.tagName)) continue;
    if (!e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const ink = parse(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least[0]) least = [ratio, `${e.tagName}.${e.className?.baseVal ?? e.className}`];
  }
  return least;
}"""


@both_schemes
def test_words_stand_out(page: Any) -> None:
    page.get_by_label("Clips").select_option("")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    ratio, where = page.evaluate(CONTRAST)
    assert ratio >= 4.5, where


def test_all_controls_have_names(page: Any) -> None:
    """What Tab reaches says what it is."""
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a, button, select, input, audio, [tabindex='0']")]
        .filter((e) => !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim()))
        .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert nameless == []


def test_agreement_is_drawn(page: Any) -> None:
    """A line of hours kept for each measure, and one of error rates; with names and numbers."""
    figures = page.locator("#agreement figure")
    assert figures.count() == 3
    for name in ("agreement", "avg_logprob"):
        line = page.locator(f"figure[data-kept={name}] polyline")
        assert len(line.get_attribute("points").split()) >= 2
    assert page.locator("#kept-wer polyline").count() == 2
    inside = """svg => { const b = svg.viewBox.baseVal;
      return [...svg.querySelectorAll("text, polyline")].every((e) => { const a = e.getBBox();
        return a.x >= 0 && a.x + a.width <= b.width && a.y + a.height <= b.height; }); }"""
    for svg in page.locator("#agreement svg").all():
        assert svg.evaluate(inside)
        assert " %" in svg.get_attribute("aria-label")
    page.locator("#agreement summary").click()
    assert page.get_by_role("region", name="What limits").locator("tbody tr").count() == 7


#: Each scheme in one of the widths, and each night in the other one too.
SHAPES = [
    ("light", 1400),
    pytest.param("dark", 400, marks=pytest.mark.nightly),
    pytest.param("dark", 1400, marks=pytest.mark.nightly),
    pytest.param("light", 400, marks=pytest.mark.nightly),
]  # fmt: skip
OPEN = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def audited(browser: Any, page_path: Path, scheme: str, width: int, fault: str = "") -> list[Any]:
    """Violations that axe-core finds, which comes with the wheel of axe-playwright-python; the
    browser must not complain either."""
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
