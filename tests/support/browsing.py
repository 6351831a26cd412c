"""The Dagster UI and the reports in a browser: Chromium without a window.

Screenshots of the pages go to the directory TEST_SCREENSHOTS, if it is set: those in docs/images are made so.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.servers import unavailable

BROWSERS, DRIVERS = ("chromium", "google-chrome"), ("chromedriver",)
SEEN_SECONDS = 60
REBOUND = "rebound.example"
"""A name of somebody else's that leads the browser to this machine, as names do that are bound anew (DNS rebinding)."""


@pytest.fixture(scope="module")
def browser(chromium: WebDriver) -> Iterator[WebDriver]:
    """Chromium, which leaves at last what a module has seen: the page would ask for news until the run of tests ends.

    A test leads it from the page of the one before to its own, in the same process.
    """
    yield chromium
    chromium.get("about:blank")


@pytest.fixture(scope="session")
def chromium() -> Iterator[WebDriver]:
    """Chromium without a window; skipped where it is not installed, an error with CI=true."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = next(filter(None, map(shutil.which, DRIVERS)), None)
    if binary is None or driver is None:
        unavailable("Chromium and its driver are not installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    rebinding = f"host-resolver-rules=MAP {REBOUND} 127.0.0.1"
    usual = ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "window-size=1700,950")
    for option in (*usual, rebinding, "ignore-certificate-errors"):
        options.add_argument(f"--{option}")
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


def see(browser: WebDriver, url: str, *texts: str, picture: str = "") -> None:
    """Open a page and wait until it shows each of the texts."""
    browser.get(url)
    wait_for(browser, *texts)
    keep(browser, picture)


def wait_for(browser: WebDriver, *texts: str) -> None:
    # To gather the text of an element as Selenium does takes half a second of a processor, each time it looks.
    def is_shown(page: WebDriver) -> bool:
        shown: str = page.execute_script("return document.body?.innerText ?? ''")
        return all(text in shown for text in texts)

    WebDriverWait(browser, SEEN_SECONDS).until(
        is_shown,
        f"{browser.current_url} does not show {texts}",
    )


def click(browser: WebDriver, path: str, *, last: bool = False) -> None:
    found = WebDriverWait(browser, SEEN_SECONDS).until(lambda page: page.find_elements(By.XPATH, path), path)
    found[-1 if last else 0].click()


def keep(browser: WebDriver, picture: str) -> None:
    """Save what the browser shows, where somebody wants it."""
    directory = os.environ.get("TEST_SCREENSHOTS")
    if picture and directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(Path(directory) / f"{picture}.png"))
