"""A browser on the explorer: every view, by mouse and by keyboard, light and dark, wide and narrow.

Needs Chromium, as `test_report_browser.py` does. Whatever the browser complains about fails the
test. Pictures go to the folder that UTTERMILL_SCREENSHOTS names.
"""

import json
import os
import shutil
import socket
import sys
import threading
import time
import traceback
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf
import uvicorn

from tests.e2e.test_report_browser import browser, wait
from tests.helpers import corpus, tiers
from tests.insight.test_report import EVIL, recorded
from uttermill.flows import formatting
from uttermill.flows.explore import app
from uttermill.flows.explore.corpus import Corpus
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.storage import versions

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.needs("chromium")]
TOKEN = "token-of-the-test"
VIEWS = {
    "clips": "view=clips",
    "clip": "view=clips&item=2",
    "recordings": "view=recordings",
    "recording": "view=recording&recording=talks/talk",
    "charts": "view=charts&x=duration&y=loudness&try=duration:min:0.5",
    "corpus": "view=corpus&what=speaker",
    "words": "view=corpus&what=words",
    "texts": "view=corpus&what=texts",
    "compare": "view=compare&against=1",
    "sql": "view=sql&sql=SELECT * FROM utterances",
}


#: Columns of numbers whose heading ends elsewhere than their cells.
BESIDE = """() => [...document.querySelectorAll('.grid tbody tr:first-child td.n')].filter(cell => {
  const head = document.querySelectorAll('.grid thead th')[cell.cellIndex];
  const ends = [head, cell].map(it => {
    const range = document.createRange();
    range.selectNodeContents(it);
    return range.getBoundingClientRect().right;
  });
  return cell.textContent && Math.abs(ends[0] - ends[1]) > 12;
}).map(cell => cell.cellIndex)"""


@dataclass(frozen=True)
class Served:
    out: Path
    url: str


def make(tmp: Path) -> Path:
    """Two versions of seven recordings and of a talk of two speakers in four segments."""
    corpus.make(tmp / "in", 8)
    (tmp / "in" / "r07.wav").write_bytes(b"this is no audio")
    listed = corpus.listed(tmp / "in", 8, tmp / "list.jsonl", r04=EVIL)
    lines = [json.loads(line) for line in listed.read_text().splitlines()]
    moods = [{**line, "mood": ("calm", "glad")[n % 2]} for n, line in enumerate(lines)]
    corpus.jsonl(listed, moods)
    talk = tmp / "talk"
    talk.mkdir()
    sf.write(talk / "talk.wav", corpus.speech(99, 24.0, 16000), 16000, "PCM_16")
    (talk / "wav.scp").write_text(f"talk {talk}/talk.wav\n")
    spans = [(0.5, 5.0), (5.5, 6.0), (7.0, 15.0), (16.0, 23.5)]
    (talk / "segments").write_text(
        "".join(f"t{n} talk {low} {high}\n" for n, (low, high) in enumerate(spans))
    )
    (talk / "text").write_text("".join(f"t{n} words of part {n}\n" for n in range(4)))
    (talk / "utt2spk").write_text("".join(f"t{n} speaker{n % 2}\n" for n in range(4)))
    sources = [
        {
            "kind": "jsonl",
            "path": str(tmp / "list.jsonl"),
            "name": "c",
            "expect_broken": True,
            "labels": ["mood"],
        },
        {"kind": "kaldi", "path": str(talk), "name": "talks"},
    ]
    filters = corpus.filters({"use": "loudness"}, min=0.7)
    job = corpus.job(tmp, sources=sources, filter={**filters, "segmenter": {"use": "auto"}})
    recorded(job)
    limited = corpus.filters({"use": "loudness"}, min=0.9)
    recorded(replace(job, filter=job.filter.model_copy(update={"filters": corpus.job(
        tmp, filter=limited).filter.filters})))  # fmt: skip
    return job.out


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("browser"))


@pytest.fixture
def served(whole: Path, tmp_path: Path) -> Iterator[Served]:
    """The explorer over a copy of OUT, on a port of its own."""
    out = tmp_path / "out"
    shutil.copytree(whole, out, symlinks=True)
    yield from serve(out, tmp_path / "home")


def serve(out: Path, home: Path) -> Iterator[Served]:
    home.mkdir()
    corpus_ = Corpus(out, home)
    config = uvicorn.Config(
        app.make(app.Explorer(corpus_, None, TOKEN, home)), log_level="warning", lifespan="off"
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield Served(out, f"http://127.0.0.1:{listener.getsockname()[1]}/?token={TOKEN}")
        server.should_exit = True
        thread.join(20)
    corpus_.close()


class Pages:
    """Opens pages of contexts of their own, and collects what the browser complains about."""

    def __init__(self, browser: Any) -> None:
        self.browser, self.faults, self.contexts = browser, list[str](), list[Any]()

    def context(self, scheme: str = "light", width: int = 1400) -> Any:
        context = self.browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
        )
        self.contexts.append(context)
        return context

    def page(self, served: Served, view: str, context: Any = None, wait_ms: int = 120_000) -> Any:
        from playwright.sync_api import TimeoutError as Late

        page = (context or self.context()).new_page()
        page.on("console", lambda m: self.faults.append(m.text)
                if m.type in ("error", "warning") else None)  # fmt: skip
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: dialog.accept())
        page.on("request", lambda r: self.faults.append(r.url)
                if not r.url.startswith(served.url.partition("?")[0]) else None)  # fmt: skip
        waiting = set[str]()
        page.on("request", lambda r: waiting.add(r.url))
        page.on("requestfinished", lambda r: waiting.discard(r.url))
        page.on("requestfailed", lambda r: waiting.discard(r.url))
        page.set_default_timeout(wait_ms)
        page.goto(f"{served.url}#{view}")
        try:
            page.locator("main h2:not(.loading)").wait_for()
        except Late as late:
            said = page.locator("#fault").text_content()
            raise AssertionError(
                f"{view!r} did not appear in {wait_ms} ms; the page says {said!r}, the browser "
                f"{self.faults}, no answer to {waiting or 'nothing'}; threads:\n{stacks()}"
            ) from late
        return page


def stacks() -> str:
    """Where each thread is that runs the explorer's code."""
    all_threads = (traceback.format_stack(frame) for frame in sys._current_frames().values())
    return "\n".join("".join(lines[-8:]) for lines in all_threads if "/flows/" in "".join(lines))


@pytest.fixture
def pages(served: Served, browser: Any) -> Iterator[Pages]:
    found = Pages(browser)
    yield found
    for context in found.contexts:
        context.close()
    assert found.faults == []


def picture(page: Any, name: str) -> None:
    home = os.environ.get("UTTERMILL_SCREENSHOTS")
    if home:
        Path(home).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(home) / f"explore-{name}.png"))


def decisions(served: Served) -> list[tuple[str, str | None, str]]:
    return [
        (d.decision, d.text, d.note) for d in decision_log.read(decision_log.stored(served.out))
    ]


#: What is widest: a table, and a comparison.
WIDE = ("clips", "compare")


@pytest.mark.parametrize(
    ("scheme", "width", "chosen"),
    [("light", 1400, VIEWS), ("dark", 400, WIDE),
     *(tiers.nightly(*shape, VIEWS) for shape in (("dark", 400), ("dark", 1400), ("light", 400)))],
    ids=["light-1400", "dark-400-wide", "dark-400", "dark-1400", "light-400"],
)  # fmt: skip
def test_every_view(
    pages: Pages, served: Served, scheme: str, width: int, chosen: Container[str]
) -> None:
    """Each view draws, has no serious fault for axe, and does not overflow its window."""
    from axe_playwright_python.sync_playwright import Axe

    context = pages.context(scheme, width)
    for name, view in VIEWS.items():
        if name not in chosen:
            continue
        page = pages.page(served, view, context)
        if name == "clip":
            page.locator("[data-ready]").wait_for()
        page.wait_for_timeout(150)
        assert page.locator("#fault").is_hidden()
        found = Axe().run(page).response["violations"]
        grave = [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found
                 if v["impact"] in ("serious", "critical")]  # fmt: skip
        assert grave == [], name
        overflow = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, (name, overflow)
        if name == "corpus":
            assert page.evaluate(BESIDE) == [], "a heading is not above its numbers"
        picture(page, f"{name}-{scheme}-{width}")
        page.close()


def test_texts_are_inert(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&q=onerror")
    assert page.locator("tbody tr").count() == 1
    page.locator("tbody tr td").nth(4).click()
    page.locator("#clip .text").wait_for()
    assert page.locator("img").count() == 0
    assert "</script>" in page.locator("#clip .text").inner_text()


def test_by_keyboard_alone(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&in.outcome=packaged")
    keys = page.keyboard
    keys.press("j")
    page.locator("[data-ready]").wait_for()
    assert page.locator("tr[aria-selected]").count() == 1
    keys.press("Space")
    wait(page, "document.querySelector('#clip audio').currentTime > 0.1")
    first = page.evaluate("() => location.hash")
    keys.press("y")
    wait(page, f"location.hash !== {first!r}")
    keys.press("n")
    wait(page, "document.querySelectorAll('.tag.person').length === 2")
    keys.press("k")
    keys.press("u")
    wait(page, "document.querySelectorAll('.tag.person').length === 1")
    keys.press("e")
    page.locator("#text").fill("the right words")
    keys.press("Control+Enter")
    page.locator(".person-says").wait_for()
    made = [kind for kind, _, _ in decisions(served)]
    assert made == ["keep", "drop", "undo", "retext"]
    assert decisions(served)[-1][1] == "the right words"
    keys.press("Escape")
    keys.press("Escape")
    page.locator("#clip").wait_for(state="hidden")
    keys.press("/")
    keys.type("part 2")
    wait(page, "document.querySelectorAll('tbody tr').length === 1")
    keys.press("Enter")
    keys.press("3")
    page.locator(".plot canvas").first.wait_for()
    keys.press("?")
    assert page.locator("dialog[open]").count() == 1


def test_boundaries_are_moved(pages: Pages, served: Served) -> None:
    """By hand, and to where the player is; `explore/test_recut.py` has the run after that."""
    page = pages.page(served, "view=clips&in.outcome=packaged")
    page.keyboard.press("j")
    page.locator("[data-ready]").wait_for()
    page.locator("#edges summary").click()
    start, end = (page.locator(f"#{name}") for name in ("start", "end"))
    whole = float(end.input_value())
    page.evaluate("() => { document.querySelector('#clip audio').currentTime = 0.25; }")
    page.get_by_role("button", name="start here").click()
    end.fill(f"{whole - 0.05:.3f}")
    picture(page, "boundaries")
    page.get_by_role("button", name="Save the boundaries").click()
    page.locator(".person-says", has_text="recut").wait_for()
    decision = decision_log.read(decision_log.stored(served.out))[-1]
    assert decision.decision == "recut"
    assert decision.start == pytest.approx(0.25, abs=0.02)
    assert decision.end == pytest.approx(whole - 0.05, abs=0.001)
    assert start.input_value() == f"{decision.start:.3f}"


@pytest.mark.nightly
def test_the_text_of_a_whole_recording_may_stay_with_moved_boundaries(
    pages: Pages, served: Served
) -> None:
    """Who cut silence off the end of a clip lost its text, and the clip with it."""
    page = pages.page(served, "view=clips&in.outcome=packaged")

    def with_reference(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "reference": "all of it"})

    page.route("**/api/clip/*", with_reference)
    page.keyboard.press("j")
    page.locator("[data-ready]").wait_for()
    text = page.locator("#text").input_value()
    page.locator("#edges summary").click()
    end = page.locator("#end")
    end.fill(f"{float(end.input_value()) - 0.05:.3f}")
    page.get_by_label("the text stays as it is").check()
    page.get_by_role("button", name="Save the boundaries").click()
    page.locator(".person-says", has_text="recut").wait_for()
    decision = decision_log.read(decision_log.stored(served.out))[-1]
    assert (decision.decision, decision.text) == ("recut", text)
    assert text


#: The first decision takes 0.3 s to the server, as over a slow line.
SLOW_FIRST = """() => {
  const whole = window.fetch;
  let posts = 0;
  window.fetch = async (path, options = {}) => {
    if (options.method === "POST" && posts++ === 0) await new Promise((go) => setTimeout(go, 300));
    return whole(path, options);
  };
}"""


@pytest.mark.nightly
def test_decisions_are_stored_in_the_order_made(pages: Pages, served: Served) -> None:
    """Of a keep and a drop in quick succession the drop counts, whatever the network does."""
    page = pages.page(served, "view=clips&in.outcome=packaged")
    page.evaluate(SLOW_FIRST)
    page.keyboard.press("j")
    page.locator("[data-ready]").wait_for()
    page.keyboard.press("y")
    page.keyboard.press("k")
    page.keyboard.press("n")
    wait(page, "document.querySelectorAll('.tag.person').length === 1")
    page.locator(".tag.person", has_text="drop").wait_for()
    assert [kind for kind, _, _ in decisions(served)] == ["keep", "drop"]


#: Answers about clips whose bodies come in two halves, the second when the page calls `release`;
#: one that is overtaken before fails as the browser's own do.
HALVES = """() => {
  const whole = window.fetch;
  const waiting = [];
  window.release = () => waiting.splice(0).forEach((each) => each());
  window.halves = 0;
  window.fetch = async (path, options = {}) => {
    if (!path.startsWith("api/clip/")) return whole(path, options);
    const data = new Uint8Array(await (await whole(path)).arrayBuffer());
    const body = new ReadableStream({ start(control) {
      control.enqueue(data.slice(0, 20));
      window.halves += 1;
      options.signal.addEventListener("abort", () => control.error(options.signal.reason));
      waiting.push(() => {
        if (options.signal.aborted) return;
        control.enqueue(data.slice(20));
        control.close();
      });
    } });
    return new Response(body, { headers: { "content-type": "application/json" } });
  };
}"""


#: The panel shows the second clip of the table.
SHOWN = (
    "document.querySelectorAll('tbody tr')[1].dataset.key "
    "=== document.querySelector('#review').dataset.item"
)
#: Answers to what is asked of this path come when the page calls `release`.
HELD = """(start) => {
  const whole = window.fetch;
  const waiting = [];
  window.release = () => waiting.splice(0).forEach((each) => each());
  window.held = 0;
  window.fetch = async (path, options) => {
    const answer = await whole(path, options);
    if (!String(path).startsWith(start)) return answer;
    window.held += 1;
    await new Promise((go) => waiting.push(go));
    return answer;
  };
}"""


@pytest.mark.nightly
def test_what_is_typed_while_a_decision_is_stored_stays(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&in.outcome=packaged")
    page.keyboard.press("j")
    page.locator("[data-ready]").wait_for()
    page.evaluate(HELD, "api/reviews")
    page.keyboard.press("y")
    wait(page, f"window.held === 1 && {SHOWN}")
    page.keyboard.press("e")
    page.keyboard.type("half of a")
    page.keyboard.press("ArrowLeft")
    page.evaluate("() => window.release()")
    wait(page, "document.querySelectorAll('.tag.person').length === 1")
    page.keyboard.type("n other ")
    written = page.locator("#text").input_value()
    assert written.endswith("half of n other a") or written.startswith("half of n other a"), written
    page.keyboard.press("Control+Enter")
    wait(page, "window.held === 2")
    page.evaluate("() => window.release()")
    page.locator(".person-says").wait_for()
    assert page.locator("#review details[open]").count() == 0
    assert decisions(served)[-1][1] == written


@pytest.mark.nightly
def test_an_older_answer_that_comes_later_takes_no_decision_back(
    pages: Pages, served: Served
) -> None:
    """Another person's drop is on its way to the page when this one keeps the clip."""
    page = pages.page(served, "view=clips&in.outcome=packaged")
    page.keyboard.press("j")
    page.locator("[data-ready]").wait_for()
    page.keyboard.press("n")
    page.locator(".tag.person", has_text="drop").wait_for()
    (made,) = decision_log.read(decision_log.stored(served.out))
    decision_log.append(served.out, [replace(made, who="another")])
    page.evaluate(HELD, "api/reviews?")
    page.evaluate(
        """async () => {
      window.review = await import(new URL("review.js", document.baseURI).href);
      review.refresh().then(() => { window.refreshed = true; });
    }"""
    )
    wait(page, "window.held === 1")
    page.keyboard.press("k")
    page.keyboard.press("y")
    page.locator(".tag.person", has_text="keep").wait_for()
    page.evaluate("() => window.release()")
    wait(page, "window.refreshed")
    assert page.evaluate(f"() => review.of({made.id!r}).decision") == "keep"
    decision_log.path(served.out).unlink()  # a file of fewer lines is another file
    page.evaluate("() => { review.refresh().then(() => { window.refreshed = 2; }); }")
    wait(page, "window.held === 2")
    page.evaluate("() => window.release()")
    wait(page, "window.refreshed === 2")
    assert page.evaluate(f"() => review.of({made.id!r})") is None


@pytest.mark.nightly
def test_e_before_the_clip_is_there_means_the_chosen_one(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&in.outcome=packaged")
    page.keyboard.press("j")
    page.locator("[data-ready]").wait_for()
    page.locator("#note").fill("of the first")
    page.locator("#note").blur()
    page.evaluate(HELD, "api/clip")
    page.keyboard.press("j")
    wait(page, "window.held === 1")
    page.keyboard.press("e")
    assert page.locator("#review details[open]").count() == 0
    page.keyboard.press("y")  # of the second, whose panel is not there yet: not the first's note
    wait(page, "document.querySelectorAll('.tag.person').length === 1")
    assert decisions(served) == [("keep", None, "")]
    page.keyboard.press("k")
    page.keyboard.press("e")
    wait(page, f"(window.release(), {SHOWN})")
    page.locator("#review details[open]").wait_for()
    assert page.evaluate("() => document.activeElement.id") == "text"


@pytest.mark.nightly
def test_a_clip_overtaken_while_its_answer_arrives(pages: Pages, served: Served) -> None:
    """The next clip is asked for, or the clip is closed, when half of an answer has come."""
    page = pages.page(served, "view=clips&in.outcome=packaged")
    page.evaluate(HALVES)
    page.keyboard.press("j")
    wait(page, "window.halves === 1")
    page.keyboard.press("j")
    wait(page, "window.halves === 2")
    assert page.locator("#fault").is_hidden()
    page.evaluate("() => window.release()")
    page.locator("[data-ready]").wait_for()
    page.keyboard.press("j")
    wait(page, "window.halves === 3")
    page.keyboard.press("Escape")
    page.locator("#clip").wait_for(state="hidden")
    page.evaluate("() => window.release()")
    page.evaluate("() => fetch('api/about').then((answer) => answer.text())")
    assert page.locator("#clip").is_hidden()
    assert page.locator("#fault").is_hidden()


@pytest.mark.nightly
def test_sorting_filtering_and_the_address(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips")
    page.get_by_role("button", name="seconds", exact=True).click()
    wait(page, "document.querySelector('th[aria-sort=ascending]')")
    page.locator("#filters li", has_text="dropped").locator("input").check()
    wait(
        page,
        "document.querySelectorAll('tbody tr').length > 0 && "
        "[...document.querySelectorAll('tbody .tag')].every(t => t.textContent === 'dropped')",
    )
    rows = page.locator("tbody tr").count()
    address = page.url
    assert "sort=seconds" in address
    other = pages.page(served, address.partition("#")[2])
    assert other.locator("tbody tr").count() == rows
    page.locator(".chips button").first.click()
    wait(page, f"document.querySelectorAll('tbody tr').length > {rows}")
    page.go_back()
    wait(page, f"document.querySelectorAll('tbody tr').length === {rows}")


def test_charts_choose_clips(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=charts&x=duration&y=loudness")
    histogram = page.get_by_role("img", name="Histogram")
    histogram.scroll_into_view_if_needed()
    box = histogram.bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 90, steps=4)
    page.mouse.up()
    page.locator("table.grid").wait_for()
    assert "below.duration=" in page.url
    page.keyboard.press("3")
    page.locator(".sliders select").select_option("duration:min")
    page.get_by_role("button", name="Try it").click()
    page.get_by_label("duration min, exactly").fill("0.5")
    wait(page, "/With these limits: about/.test(document.querySelector('.kept').textContent)")
    assert "--set filter.filters.duration.min=0.5" in page.locator(".settings").inner_text()


def test_the_list_names_and_plays_clips(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&in.outcome=packaged")
    row = page.locator("tbody tr").first
    assert row.locator("bdi").first.inner_text().endswith(".wav")
    assert row.locator("small").inner_text()
    row.get_by_role("button", name="play").click()
    wait(page, "document.querySelector('tbody .play').textContent === '■'")
    row.get_by_role("button", name="play").click()
    wait(page, "document.querySelector('tbody .play').textContent === '▶'")
    assert page.locator("#clip").is_hidden()


@pytest.mark.nightly
def test_as_packaged_and_as_recorded_in_turn(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&in.outcome=packaged")
    page.locator("tbody tr td").nth(2).click()
    page.locator("[data-ready]").wait_for()
    assert page.locator("#clip .file").inner_text().endswith(".wav")
    page.keyboard.press("a")
    wait(page, "document.querySelector('#clip audio').src.includes('&start=')")
    assert page.locator("#source").get_attribute("aria-pressed") == "true"
    page.keyboard.press("a")
    wait(page, "!document.querySelector('#clip audio').src.includes('&start=')")


def test_counts_follow_the_filters(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips")
    kept = "#filters [data-name=reason] [data-value=packaged] .count"
    assert page.locator(kept).inner_text() != "0"
    page.get_by_label("dropped").check()
    wait(page, f"document.querySelector('{kept}').textContent === '0'")


@pytest.mark.nightly
def test_words_of_the_list(pages: Pages, served: Served) -> None:
    """It said "packaged packaged" beside each clip that is kept, and "1 clips"."""
    page = pages.page(served, "view=clips")
    rows = [
        (row.locator(".c-outcome").inner_text(), row.locator(".c-reason").inner_text())
        for row in page.locator("tbody tr").all()
    ]
    assert ("packaged", "") in rows
    assert ("dropped", "too_short") in rows
    assert not [row for row in rows if row[0] == row[1]]
    page = pages.page(served, "view=clips&in.outcome=failed")
    assert page.locator("main h2").inner_text().startswith("1 clip, ")
    page = pages.page(served, "view=recordings&in.outcome=failed")
    assert page.locator("main h2").inner_text().startswith("1 recording, ")


@pytest.mark.nightly
def test_labels_are_filters_and_a_table(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=corpus&what=label.mood")
    page.get_by_role("button", name="glad").click()
    wait(page, "location.hash.includes('in.label.mood=glad')")
    page.locator("#filters summary", has_text="Label mood").wait_for()
    counts = "#filters [data-name='label.mood'] [data-value={}] .count"
    assert page.locator(counts.format("calm")).inner_text() != "0", "it may still be chosen"
    every = page.locator("tbody tr").count()
    page.get_by_label("calm").check()
    wait(page, f"document.querySelectorAll('tbody tr').length > {every}")


@pytest.mark.nightly
def test_views_have_names(pages: Pages, served: Served) -> None:
    context = pages.context()
    page = pages.page(served, "view=clips&q=number", context)
    page.locator("#saved summary").click()
    page.get_by_label("Name of this view").fill("numbers <b>")
    page.get_by_role("button", name="Save").click()
    wait(page, "document.title.startsWith('numbers <b> – ')")
    again = pages.page(served, "view=charts", context)
    again.locator("#saved summary").click()
    again.get_by_role("link", name="numbers <b>").click()
    wait(again, "document.querySelector('#q').value === 'number'")


def test_sql_and_its_refusals(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=sql")
    page.get_by_label("Query").fill("SELECT count(*) AS n FROM utterances")
    page.keyboard.press("Control+Enter")
    page.locator("#answer td").wait_for()
    page.get_by_label("Query").fill("DROP TABLE items")
    page.get_by_role("button", name="Run").click()
    page.locator("#answer [role=alert]").wait_for()
    pages.faults.clear()  # the browser tells of the answer 400


@pytest.mark.nightly
def test_texts_are_seen_in_a_narrow_window(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&in.outcome=packaged", pages.context(width=400))
    box = page.locator("td.c-text").first.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400
    assert box["width"] > 300


@pytest.mark.nightly
def test_a_recording_over_time(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=recordings")
    page.get_by_role("link", name="talks/talk").click()
    board = page.locator("canvas.timeline")
    board.wait_for()
    page.get_by_role("button", name="Speech probability").click()
    page.locator("canvas[data-speech]").wait_for()
    box = board.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 5.7 / 23.5, box["y"] + 30)  # what was dropped
    page.locator("#clip [data-ready]").wait_for()
    assert page.locator("#clip .o-dropped").first.is_visible()
    page.keyboard.press("b")
    wait(page, "document.querySelectorAll('.cut').length === 2")
    wait(page, "document.querySelector('#clip audio').currentTime > 0.05")


def test_a_decision_on_a_selection(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&in.reason=too_short")
    count = page.locator("tbody tr").count()
    page.locator(".bulk button", has_text="keep").click()
    wait(page, f"document.querySelectorAll('.tag.person').length === {count}")
    assert [kind for kind, _, _ in decisions(served)] == ["keep"] * count


@pytest.mark.nightly
def test_a_page_stays_with_the_version_that_it_shows(pages: Pages, served: Served) -> None:
    """Another version numbers its items otherwise, whether a run publishes it or Back leads there;
    so what was selected is not selected in it."""
    page = pages.page(served, "view=clips")
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if "/api/" in r.url else None)
    home = served.out / "datasets"
    shutil.copytree(home / "v0002", home / "v0003")
    page.get_by_role("button", name="seconds").click()
    wait(page, "document.querySelector('[aria-sort=ascending]')")
    kept = page.locator("tbody .o-packaged").count()
    page.locator("#version").select_option("1")
    wait(page, f"document.querySelectorAll('tbody .o-packaged').length > {kept}")
    page.get_by_label("select").first.check()
    assert page.locator("#marked").inner_text() == "1 selected:"
    page.go_back()
    wait(page, "document.getElementById('version').value === '2'")
    wait(page, "document.getElementById('marked').textContent === 'All that match:'")
    assert all("version=" in url for url in asked if "/api/reviews" not in url), asked


@pytest.mark.nightly
def test_loudness_of_a_clip(pages: Pages, served: Served) -> None:
    """A full-scale sine of 997 Hz has -3.01 LUFS (BS.1770), at any rate; the panel draws and says
    what it heard."""
    page = pages.page(served, "view=clips&item=2")
    page.locator("[data-ready]").wait_for()
    assert "LUFS" in page.locator("#levels").inner_text()
    assert page.get_by_role("img", name="Loudness").is_visible()
    found = page.evaluate(
        """async () => {
      const { loudness } = await import(new URL("loudness.js", document.baseURI).href);
      const sine = (rate, seconds, size) => loudness({ rate, values: Float32Array.from(
        { length: rate * seconds }, (_, i) => size * Math.sin((2 * Math.PI * 997 * i) / rate)) });
      return { loud: sine(16000, 3, 1).whole, quiet: sine(48000, 3, 0.1).whole,
               short: sine(8000, 0.2, 1).curve.length, silent: sine(16000, 1, 0).whole };
    }"""
    )
    assert found["loud"] == pytest.approx(-3.01, abs=0.05)
    assert found["quiet"] == pytest.approx(-23.01, abs=0.05)
    assert (found["short"], found["silent"]) == (1, None)


@pytest.mark.nightly
def test_pictures_of_a_clip_are_as_wide_as_the_panel(pages: Pages, served: Served) -> None:
    """They were drawn before the panel had its width, and stretched to twice theirs."""
    page = pages.page(served, "view=clips", pages.context(width=1400))
    page.locator("tbody tr").first.wait_for()
    page.keyboard.press("j")
    page.locator("[data-ready]").wait_for()
    sharp = """[...document.querySelectorAll('.board canvas')].every((each) =>
      each.width === Math.round(each.clientWidth * Math.min(window.devicePixelRatio, 2)))"""
    wait(page, sharp)
    page.set_viewport_size({"width": 700, "height": 900})
    wait(page, sharp)


@pytest.mark.nightly
def test_times_are_those_of_the_commands(pages: Pages, served: Served) -> None:
    """The page cut seconds off where `ledger` rounds: 5:37 for 5:38; and 59.999 s was 0:59.00."""
    page = pages.page(served, "view=clips")
    seconds = [0, 59.4, 59.6, 337.9066, 3599.7]
    shown = page.evaluate(
        """async (seconds) => {
      const { clock, time } = await import(new URL("dom.js", document.baseURI).href);
      return [seconds.map(clock), [59.999, 9.656, 3600.5].map(time)];
    }""",
        seconds,
    )
    assert shown[0] == [formatting.clock(each) for each in seconds]
    assert shown[1] == ["1:00.00", "0:09.66", "1:00:00.50"]


@pytest.mark.nightly
def test_changed_texts_have_room(pages: Pages, served: Served) -> None:
    """Long ids took it, and a sentence of 20 words stood on 12 lines."""
    page = pages.page(served, "view=compare&against=1", pages.context(width=1200))
    width = page.locator("td.wide").first.evaluate("cell => cell.getBoundingClientRect().width")
    assert width >= 300
    region = page.get_by_role("region", name="Changes")
    assert region.evaluate("box => box.scrollWidth <= box.clientWidth"), "nothing is cut off"


@pytest.mark.nightly
def test_a_clip_without_audio(pages: Pages, served: Served) -> None:
    page = pages.page(served, "view=clips&in.outcome=failed")
    page.keyboard.press("j")
    wait(page, "/^No audio: /.test(document.getElementById('levels')?.textContent)")


def test_a_wrong_token(browser: Any, served: Served) -> None:
    page = browser.new_page()
    answer = page.goto(served.url.replace(TOKEN, "wrong"))
    assert answer.status == 403
    assert "whole address" in page.inner_text("body")
    page.close()


@pytest.mark.nightly
def test_a_million_rows(pages: Pages, tmp_path: Path) -> None:
    """Each view of 1,000,000 made rows; the time from the change of the address to the answer."""
    from tests.helpers import explored as bench

    out = tmp_path / "million"
    bench.make(out, 1_000_000)
    (out / "runs").mkdir()
    for served in serve(out, tmp_path / "million-home"):
        began = time.monotonic()
        page = pages.page(served, "view=recordings", wait_ms=120_000)
        print(f"the first page, with reading: {1000 * (time.monotonic() - began):.0f} ms")
        wait(page, "performance.getEntriesByType('paint').length > 0")
        paint = page.evaluate("() => performance.getEntriesByType('paint')[0].startTime")
        print(f"first paint while it reads: {paint:.0f} ms")
        assert paint < 1000
        for name, view in {
            **VIEWS, "search": "view=clips&q=harbour yellow", "by text": "view=clips&sort=text",
            "page 4000": "view=clips&sort=-snr&page=4000", "rare": "view=corpus&what=characters",
        }.items():  # fmt: skip
            if name in ("recording", "compare"):  # neither is of these rows
                continue
            page.evaluate("() => { document.querySelector('main h2').classList.add('loading'); }")
            began = time.monotonic()
            page.evaluate("(view) => { location.hash = view; }", view)
            page.locator("main h2:not(.loading)").wait_for()
            print(f"{name}: {1000 * (time.monotonic() - began):.0f} ms")
            assert page.locator("#fault").is_hidden(), name
            picture(page, f"million-{name.replace(' ', '-')}")


@pytest.mark.nightly
def test_names_and_texts_of_others_are_no_markup(whole: Path, tmp_path: Path, browser: Any) -> None:
    """In each view: nothing is asked for, said to the console, or made into an element."""
    names = [EVIL, "javascript:alert(1)", "__proto__", "{{7*7}}"]
    out = tmp_path / "out"
    shutil.copytree(whole, out, symlinks=True)
    table = versions.numbered(out, 2) / "utterances.parquet"
    texts = dict.fromkeys(("text", "speaker", "hypothesis", "normalised", "split"), EVIL)
    kept = pq.read_table(table).drop_columns([*texts])
    columns = [*kept.columns, *(pa.array([text] * len(kept)) for text in (*texts.values(), *names))]
    table.unlink()
    pq.write_table(pa.table(columns, [*kept.column_names, *texts, *names]), table)
    pages = Pages(browser)
    shown = quote(",".join(name for name in ("text", *names) if "," not in name))
    views = {**VIEWS, "clips": f"view=clips&cols={shown}"}
    with contextmanager(serve)(out, tmp_path / "home") as served:
        for view in views.values():
            page = pages.page(served, view)
            assert page.locator("main img[src=x], main script").count() == 0
            page.context.close()
        page = pages.page(served, views["clips"])
        assert page.get_by_text("onerror=alert(1)").count() > 0, "it is shown, as a text"
        page.context.close()
    faults = [fault for fault in pages.faults if "400 (Bad Request)" not in fault]
    assert faults == []
