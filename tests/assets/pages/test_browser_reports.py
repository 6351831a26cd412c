"""The reports in a browser, as a person opens them: narrow and wide, by keyboard, on paper."""

import importlib.resources
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.browsing import SEEN_SECONDS, click, keep, see, wait_for
from tests.support.prepared_processes import run_dcc
from tests.support.served_page import ServedPage
from tests.support.trials import usually

FAILED = "add/H.2013-11-04.3.impc.zip"
DOCUMENT = "H.2013-11-04.1.specimen.impc.xml"
REPORTS = {
    "refused": f"/dcc/reports/{FAILED}",
    "accepted": "/dcc/reports/add/H.2013-10-31.1.impc.zip",
    "faulty data": "/dcc/reports/add/J.2013-11-04.28.impc.zip",
    "in German": f"/dcc/reports/{FAILED}?language=de",
    "centre": "/dcc/reports/centre/H",
    "session": "/dcc/reports/session/1",
    "all": "/dcc/",
    "all in German": "/dcc/?language=de",
    "causes": "/dcc/causes",
    "causes in German": "/dcc/causes/H?language=de",
    "kept": "/dcc/kept",
    "board": "/dcc/board",
    "expected": "/dcc/expected/H",
    "board in German": "/dcc/board?centre=H&status=failed&language=de",
    "none": "/dcc/reports/add/H.2000-01-01.1.impc.zip",
}
"""A page of each kind, by what it is on."""

PHONE, WIDE, PAPER = 360, 1700, 794
"""Widths in CSS pixels; the last is that of A4."""
LOOKS = list(product(("light", "dark"), (WIDE, PHONE)))
"""Colour schemes and widths on a screen."""


@contextmanager
def width(browser: WebDriver, pixels: int, *, media: str = "", scheme: str = "light") -> Iterator[None]:
    """The browser as wide as this, on a screen or, as `print`, on paper, in this colour scheme."""
    size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def too_wide(browser: WebDriver) -> list[str]:
    """What reaches beyond the right edge of the page, but for what is scrolled within a part of it."""
    found: list[str] = browser.execute_script(
        """
        const edge = document.documentElement.clientWidth + 1;
        const scrolled = e => e && (getComputedStyle(e).overflowX !== 'visible' || scrolled(e.parentElement));
        return [...document.body.querySelectorAll('*')]
            .filter(e => e.getBoundingClientRect().right > edge && !scrolled(e.parentElement))
            .map(e => e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 60));
        """
    )
    if browser.execute_script("return document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        found.append("the page scrolls sideways")
    return found


def barriers(browser: WebDriver) -> list[str]:
    """What axe objects to by the rules of WCAG 2, levels A and AA: contrast, names, headings, tables, language."""
    if not browser.execute_script("return window.axe !== undefined"):
        axe = importlib.resources.files("axe_core_python") / "axe.min.js"
        browser.execute_script(axe.read_text(encoding="utf-8"))
    rules = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
    # Of the rules that a page keeps to, the number is enough: to list all their elements takes a third of the time.
    found: dict[str, Any] = browser.execute_async_script(
        """
        const done = arguments[arguments.length - 1];
        axe.run({runOnly: arguments[0], resultTypes: ['violations']})
            .then(found => done({violations: found.violations, passes: found.passes.length}));
        """,
        rules,
    )
    assert found["passes"] > 10
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]


def looks_with_barriers(kind: str) -> list[tuple[str, int]]:
    """The colour schemes and widths in which axe examines a page of a kind: all where pictures are wanted.

    Contrast depends on the one and what is hidden on the other. A page in German has the parts of the English one, and
    the two that this has not.
    """
    if "TEST_SCREENSHOTS" in os.environ:
        return LOOKS
    usual = {("dark", WIDE), ("light", PHONE)} if "in German" in kind else {("light", WIDE), ("dark", PHONE)}
    return usually(usual, LOOKS)


@pytest.mark.servers
@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_fits_every_screen_and_has_no_barriers(browser: WebDriver, served: str, kind: str) -> None:
    _examine(browser, served + REPORTS[kind], kind)


@pytest.mark.servers
@pytest.mark.parametrize("command", ["data schema --html", "data schema document --html", "replay --workers 1 --page"])
def test_a_page_that_a_command_writes_fits_every_screen_and_has_no_barriers(
    browser: WebDriver, page: ServedPage, tmp_path: Path, command: str
) -> None:
    written, said = tmp_path / "page.html", tmp_path / "said"
    assert run_dcc([*command.split(), str(written)], tmp_path, page.environment, said, said) == 0, said.read_text()
    # Of the page of all tables, one table is enough: axe would take a minute.
    _examine(browser, written.as_uri(), command.split()[0], with_axe=command != "data schema --html")


def _examine(browser: WebDriver, url: str, kind: str, *, with_axe: bool = True) -> None:
    browser.get(url)
    assert browser.find_element(By.TAG_NAME, "h1").text
    found: dict[str, list[str]] = {}
    for pixels, media in ((PHONE, ""), (WIDE, ""), (PAPER, "print")):
        with width(browser, pixels, media=media):
            found[f"{pixels} {media}"] = too_wide(browser)
    for scheme, pixels in looks_with_barriers(kind) if with_axe else []:
        with width(browser, pixels, scheme=scheme):
            found[f"{scheme} {pixels}"] = barriers(browser)
            keep(browser, f"report-{kind.replace(' ', '-')}-{scheme}-{pixels}")
    assert {where: wrong for where, wrong in found.items() if wrong} == {}


@pytest.mark.servers
def test_the_board_is_filtered_by_its_form_and_a_cell_leads_to_reports(browser: WebDriver, served: str) -> None:
    browser.get(f"{served}/dcc/")
    click(browser, "//a[text()='Tracking board']")
    wait_for(browser, "Centres and phases")
    Select(browser.find_element(By.NAME, "status")).select_by_value("failed")
    click(browser, "//button")
    WebDriverWait(browser, SEEN_SECONDS).until(lambda page: "status=failed" in page.current_url)
    cells = browser.find_elements(By.CSS_SELECTOR, ".board a.state")
    assert cells
    assert all("failed" in cell.text for cell in cells)
    is_only = " 1 " in cells[0].text
    cells[0].click()
    if not is_only:
        WebDriverWait(browser, SEEN_SECONDS).until(lambda page: page.current_url.endswith("#archives"))
        click(browser, "//section[@aria-labelledby='archives']//a")
    WebDriverWait(browser, SEEN_SECONDS).until(lambda page: "/dcc/reports/add/" in page.current_url)
    wait_for(browser, "What to correct")


@pytest.mark.servers
def test_the_phases_on_the_board_are_whole_on_a_usual_screen(browser: WebDriver, served: str) -> None:
    browser.get(f"{served}/dcc/board?language=de")
    with width(browser, 1300):
        scrolled = browser.find_element(By.CSS_SELECTOR, ".wide")
        assert scrolled.get_property("scrollWidth") <= scrolled.get_property("clientWidth")


@pytest.mark.servers
def test_the_contents_lead_to_their_parts_by_keyboard_alone(browser: WebDriver, served: str) -> None:
    see(browser, served + REPORTS["refused"], "What to correct", picture="report")
    wanted = "#correct"
    for _ in range(20):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        focused = browser.switch_to.active_element
        assert focused.tag_name != "body", "Tab leaves the page before it comes to the contents."
        shown = browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focused)
        assert shown != "none", focused.text
        if (focused.get_attribute("href") or "").endswith(wanted):
            break
    else:
        pytest.fail(f"{wanted} is not reached within 20 steps.")
    focused.send_keys(Keys.ENTER)
    WebDriverWait(browser, SEEN_SECONDS).until(lambda page: page.current_url.endswith(wanted))
    place = browser.execute_script(f"return document.querySelector('{wanted}').getBoundingClientRect().top")
    assert -1 <= place < 900


@pytest.mark.servers
def test_a_report_that_was_sent_is_whole_without_a_server(browser: WebDriver, page: ServedPage, tmp_path: Path) -> None:
    """The file that a centre is given: opened from a disk, it asks nothing of anybody."""
    report, said = tmp_path / "report.html", tmp_path / "said"
    command = ["report", FAILED, "--html", str(report)]
    assert run_dcc(command, tmp_path, page.environment, said, said) == 0, said.read_text()
    see(browser, report.as_uri(), "What to correct", DOCUMENT, "line 4")
    asked_for = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert asked_for == []
    assert browser.find_elements(By.TAG_NAME, "script") == []


@pytest.mark.servers
def test_pictures_of_the_accepted_data_are_seen_and_described(browser: WebDriver, served: str) -> None:
    browser.get(served + REPORTS["accepted"])
    pictures = browser.find_elements(By.CSS_SELECTOR, "figure svg, figure img")
    assert pictures
    for picture in pictures:
        assert picture.size["width"] > 200
        assert picture.size["height"] > 100
        described = picture.get_attribute("aria-label") or picture.get_attribute("alt") or ""
        named = picture.get_attribute("aria-labelledby") or ""
        assert described or named
        if named:
            assert all(browser.find_elements(By.ID, one) for one in named.split())


@pytest.mark.servers
def test_procedures_that_are_due_are_whole_on_a_usual_screen_and_drawn_dark_on_dark(
    browser: WebDriver, served: str
) -> None:
    browser.get(served + REPORTS["expected"])
    for scheme, drawn in (("light", "none"), ("dark", "invert(0.89) hue-rotate(180deg)")):
        with width(browser, 1400, scheme=scheme):
            cut = "return [...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1 && "
            cut += "getComputedStyle(e).overflowX !== 'visible').map(e => e.outerHTML.slice(0, 80))"
            assert browser.execute_script(cut) == []
            picture = browser.find_element(By.CSS_SELECTOR, "figure img")
            assert picture.value_of_css_property("filter") == drawn
    with width(browser, PHONE):
        shown = picture.size
        assert shown["height"] / shown["width"] == pytest.approx(
            int(picture.get_attribute("height") or 0) / int(picture.get_attribute("width") or 1), rel=0.02
        )
