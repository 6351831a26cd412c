"""The Dagster UI and the reports in a browser: Chromium without a window, on what the demonstration leaves.

Screenshots of the pages go to the directory TEST_SCREENSHOTS, if it is set: those in docs/images are made so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from tests.cli.conftest import clean
from tests.support.ports import free_port
from tests.support.process_trees import processor_seconds

BROWSERS, DRIVERS = ("chromium", "google-chrome"), ("chromedriver",)
SEEN_SECONDS = 60
REBOUND = "rebound.example"
"""A name of somebody else's that leads the browser to this machine, as names do that are bound anew (DNS rebinding)."""


@pytest.fixture
def browser(chromium: WebDriver) -> Iterator[WebDriver]:
    """Chromium, which leaves what a test has seen: the page would ask for news until the run of the tests ends."""
    yield chromium
    chromium.get("about:blank")


@pytest.fixture(scope="session")
def chromium() -> Iterator[WebDriver]:
    """Chromium without a window; skipped where it is not installed, an error with CI=true."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = next(filter(None, map(shutil.which, DRIVERS)), None)
    if binary is None or driver is None:
        message = "Chromium and its driver are not installed: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    rebinding = f"host-resolver-rules=MAP {REBOUND} 127.0.0.1"
    usual = ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "window-size=1700,950")
    for option in (*usual, rebinding, "ignore-certificate-errors"):
        options.add_argument(f"--{option}")
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="session")
def installation_of_ui() -> dict[str, str]:
    """The environment of the installation that `served` shows, once it does."""
    return {}


@pytest.fixture(scope="session")
def served(
    tmp_path_factory: pytest.TempPathFactory,
    installation_of_ui: dict[str, str],
    demonstration: tuple[Path, subprocess.CompletedProcess[str]],
) -> Iterator[str]:
    """The URL of a UI, without a daemon, on the installation that the demonstration leaves."""
    folder, shown = demonstration
    assert shown.returncode == 0, shown.stdout + shown.stderr
    home = tmp_path_factory.mktemp("served") / "home"
    shutil.copytree(folder / ".demo" / "home", home)
    installation_of_ui |= {name: value for name, value in clean(os.environ).items() if not name.startswith("COVERAGE")}
    installation_of_ui["DCC_HOME"] = str(home)
    dcc = str(Path(sys.executable).with_name("dcc"))
    with ui_process([dcc, "ui", "--without-daemon", "--port", str(port := free_port())], installation_of_ui):
        yield f"http://127.0.0.1:{port}"


class Answering(NamedTuple):
    """What a `dcc ui` printed until it answered, and the seconds that it and all that it started computed for that."""

    printed: str
    seconds: float


@contextmanager
def ui_process(command: list[str], environment: dict[str, str]) -> Iterator[Answering]:
    """A `dcc ui` that answers, until the block ends."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line)
            if "The UI is at" in line:
                break
        else:
            pytest.fail("".join(printed))
        seconds = processor_seconds(process.pid)
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Answering("".join(printed), seconds)
    finally:
        process.terminate()
        process.wait(60)


def see(browser: WebDriver, url: str, *texts: str, picture: str = "") -> None:
    """Open a page and wait until it shows each of the texts."""
    browser.get(url)
    wait_for(browser, *texts)
    keep(browser, picture)


def wait_for(browser: WebDriver, *texts: str) -> None:
    """Wait until the page shows each of the texts."""
    WebDriverWait(browser, SEEN_SECONDS).until(
        lambda page: all(text in page.find_element(By.TAG_NAME, "body").text for text in texts),
        f"{browser.current_url} does not show {texts}",
    )


def click(browser: WebDriver, path: str, *, last: bool = False) -> None:
    """Click the first or the last thing of the page at an XPath."""
    found = WebDriverWait(browser, SEEN_SECONDS).until(lambda page: page.find_elements(By.XPATH, path), path)
    found[-1 if last else 0].click()


def keep(browser: WebDriver, picture: str) -> None:
    """Save what the browser shows, where somebody wants it."""
    directory = os.environ.get("TEST_SCREENSHOTS")
    if picture and directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(Path(directory) / f"{picture}.png"))
