"""The Dagster UI in a browser: what a wrangler sees of the flow, and of a zip that failed and why."""

import re
from urllib.parse import quote

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from dcc.cli.demo import submissions
from tests.support.browsing import click, keep, see, wait_for
from tests.support.prepared_processes import run_dcc
from tests.support.served_page import ServedPage

FAILED = "add/H.2013-11-04.3.impc.zip"
IN_ERROR = "add/J.2013-11-04.28.impc.zip"
EXPERIMENTS = "J.2013-11-04.30.experiment.impc.xml"
DOCUMENT = "H.2013-11-04.1.specimen.impc.xml"
FLOW = [
    "file_sou…_listings",
    "zip_actions",
    "zip_downloads",
    "xml_documents",
    "validat…_documents",
    "uploaded_data",
    "data_integrity",
    "contexts",
    "overviews",
    "qc",
]
"""The assets as the page names them, which shortens what is long."""


@pytest.mark.servers
def test_the_lineage_page_shows_the_flow(browser: WebDriver, served: str) -> None:
    whole = f"{served}/assets/qc?view=lineage&lineageScope=upstream&lineageDepth=10"
    see(browser, whole, *FLOW, picture="lineage")


@pytest.mark.servers
def test_the_partition_of_a_failed_zip_leads_to_the_reason(browser: WebDriver, served: str) -> None:
    page = f"{served}/assets/validated_documents?view=partitions&partition={quote(FAILED, safe='')}"
    see(browser, page, FAILED, DOCUMENT, "Who acts", "What to do", "Submission report", "Tracking board")
    keep(browser, "failed-partition")


@pytest.mark.servers
def test_the_page_of_a_resource_has_its_values_and_hides_its_secrets(browser: WebDriver, served: str) -> None:
    told = ["SftpResource", "connect_timeout", "Seconds to connect to a server.", "known_hosts"]
    see(browser, f"{served}/locations/dcc/resources/sftp", *told, picture="resource")
    # The row of the secret may lie below what the window shows, which is then no text of the page.
    secret = browser.find_element(By.XPATH, "//*[text()='key_passphrase']/ancestor::tr[1]")
    row = secret.get_attribute("textContent") or ""
    assert "Secret" in row, row
    assert "********" in row, row


@pytest.mark.servers
def test_a_failing_check_tells_document_line_and_value_and_leads_to_the_report(browser: WebDriver, served: str) -> None:
    """A wrangler's way: Checks, values, Partitions, the zip in red, its report."""
    see(browser, f"{served}/assets/data_integrity?view=checks&checkDetail=values", "values", "Failed", "Partitions")
    click(browser, "//*[text()='Partitions']", last=True)
    wait_for(browser, "Failed (1)", IN_ERROR)
    click(browser, f"//*[contains(text(), '{IN_ERROR}')]")
    wait_for(browser, "Latest execution", EXPERIMENTS, "P9", "approx. 21.85", "line 7")
    keep(browser, "failing-rule")
    before = set(browser.window_handles)
    click(browser, "//*[text()='[Show Markdown]']")
    click(browser, "//a[text()='Submission report']")
    try:
        for window in set(browser.window_handles) - before:
            browser.switch_to.window(window)
        wait_for(browser, IN_ERROR.partition("/")[2], "What to correct", EXPERIMENTS, "line 7")
        assert browser.find_elements(By.TAG_NAME, "script") == []
    finally:
        for window in set(browser.window_handles) - before:
            browser.switch_to.window(window)
            browser.close()
        browser.switch_to.window(next(iter(before)))


HOSTILE = {
    "<img src=x onerror=document.title='owned'>.zip": None,
    "[here](javascript:document.title='owned').zip": None,
    "![](javascript:document.title='owned')<svg onload=document.title='owned'>.zip": None,
    "=cmd|' C calc'!A0.zip": None,
    "two\nlines \N{RIGHT-TO-LEFT OVERRIDE}piz.zip": None,
    "J.2013-11-05.77.impc.zip": "<img src=x onerror=document.title='owned'>",
}
"""Names of archives, and what one of them holds in place of a true value."""


@pytest.fixture(scope="module")
def hostile(page: ServedPage, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the partition of a file source with hostile archives, which was crawled beside the UI."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "add").mkdir()
    for name, value in HOSTILE.items():
        documents = {"J.2013-11-05.77.specimen.impc.xml": submissions.specimen_document("J")}
        if value is not None:
            written = value.replace("<", "&lt;").encode()
            documents = {
                key: re.sub(rb'isBaseline="[^"]*"', b'isBaseline="%s"' % written, text, count=1)
                for key, text in documents.items()
            }
        (folder / "add" / name).write_bytes(submissions.archive(documents))
    place = ["--centre", "J", "--protocol", "file", "--base-path", str(folder)]
    said, errors = folder / "said", folder / "errors"
    assert run_dcc(["source", "add", *place], folder, page.environment, said, errors) == 0, errors.read_text()
    number = said.read_text().strip()
    ended = run_dcc(["crawl", "--source", number], folder, page.environment, said, errors)
    assert ended == 1, said.read_text() + errors.read_text()
    return f"J-{number}"


def harmless(browser: WebDriver) -> None:
    """No script has run, and nothing on the page would load or run what a centre has named."""
    assert "owned" not in browser.title
    assert browser.find_elements(By.CSS_SELECTOR, "img[src='x'], a[href^='javascript:'], svg[onload]") == []


@pytest.mark.servers
def test_what_centres_name_their_archives_is_text_on_every_page(browser: WebDriver, served: str, hostile: str) -> None:
    see(browser, f"{served}/assets/file_source_listings?view=partitions&partition={quote(hostile, safe='')}", hostile)
    harmless(browser)
    for name in list(HOSTILE)[:2]:
        key = f"add/{name}"
        see(browser, f"{served}/assets/zip_actions?view=partitions&partition={quote(key, safe='')}", key)
        harmless(browser)
    see(browser, f"{served}/assets/validated_documents?view=checks&checkDetail=xsd", "xsd", "Partitions")
    click(browser, "//*[text()='Partitions']", last=True)
    click(browser, "//*[contains(text(), 'J.2013-11-05.77')]")
    wait_for(browser, "Latest execution", 'line 4, column 5: Attribute "isBaseline" of ‹mouse› is "‹img src=x onerror=')
    harmless(browser)
