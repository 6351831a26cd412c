"""The web page and other sites: what their pages have a browser send is refused, and starts, wipes and stops nothing.

The page's own requests, and those of programs without a browser, are answered.
"""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from tests.support.browsing import REBOUND, SEEN_SECONDS, see
from tests.support.served_page import JSON, ServedPage
from tests.support.web_server import WebServer

LAUNCH = (
    'mutation { launchRun(executionParams: {mode: "default", selector: {repositoryName: "__repository__", '
    'repositoryLocationName: "dcc", jobName: "show_changes"}, runConfigData: {}}) { __typename } }'
)
QUERY = "{ version }"
BODY = json.dumps({"query": LAUNCH})
GRAPHQL_LAUNCH = f"/graphql?query={quote(LAUNCH)}"
REPORTS = [
    "/report_asset_materialization/qc",
    "/report_asset_check/qc?check_name=qc&passed=true",
    "/report_asset_observation/qc",
]
FOREIGN = "http://other.example"
NEIGHBOUR = "http://127.0.0.1:9"
"""A page of the same machine and another port: of the same site for the browser, and yet another origin."""


@pytest.fixture
def untouched(page: ServedPage) -> Iterator[None]:
    """Whatever the test has sent: nothing was started, wiped, stopped or forged."""
    before = page.state()
    assert before["schedules"]["crawl_schedule"] == "RUNNING"
    yield
    assert page.state() == before


Headers = dict[str, str]
NAVIGATES = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
REFUSED: list[tuple[str, str, Headers, int]] = [
    # A mutation in an address, which a picture, a link or a redirect asks for.
    ("GET", GRAPHQL_LAUNCH, {}, 405),
    ("GET", GRAPHQL_LAUNCH.replace("?", "%0A?"), {}, 405),
    ("GET", GRAPHQL_LAUNCH.replace("?", "/?"), {}, 200),
    ("GET", f"/graphql?query={quote(QUERY)}", {}, 405),
    ("GET", GRAPHQL_LAUNCH, {"Accept": "text/html"}, 200),
    ("HEAD", GRAPHQL_LAUNCH, {}, 405),
    ("PUT", GRAPHQL_LAUNCH, JSON, 405),
    # What a form or a script sends without being allowed to.
    ("POST", "/graphql", {"Content-Type": "text/plain"}, 415),
    ("POST", "/graphql", {"Content-Type": "text/plain; application/json"}, 415),
    ("POST", "/graphql", {"Content-Type": "text/plain;a=application/json"}, 415),
    ("POST", "/graphql", {"Content-Type": "application/graphql"}, 415),
    ("POST", GRAPHQL_LAUNCH, {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ("POST", GRAPHQL_LAUNCH, {"Content-Type": "multipart/form-data; boundary=application/json"}, 415),
    ("POST", GRAPHQL_LAUNCH, {}, 415),
    # Another page, named by the browser.
    ("POST", "/graphql", {**JSON, "Origin": FOREIGN}, 403),
    ("POST", "/graphql", {**JSON, "Origin": NEIGHBOUR}, 403),
    ("POST", "/graphql", {**JSON, "Origin": "null"}, 403),
    ("POST", "/graphql", {**JSON, "Origin": "file://"}, 403),
    ("POST", "/graphql", {**JSON, "Origin": "chrome-extension://abcdef"}, 403),
    ("POST", "/graphql", {**JSON, "Sec-Fetch-Site": "cross-site"}, 403),
    ("POST", "/graphql", {**JSON, "Sec-Fetch-Site": "same-site"}, 403),
    ("POST", "/graphql", {**JSON, "Sec-Fetch-Site": "cross-site", **NAVIGATES}, 403),
    ("OPTIONS", "/graphql", {"Origin": FOREIGN, "Access-Control-Request-Method": "POST"}, 403),
    ("GET", "/dcc/reports", {"Origin": FOREIGN}, 403),
    ("GET", "/dcc/reports", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ("GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
    # A name of somebody else's, bound to this machine.
    ("GET", "/", {"Host": "other.example"}, 421),
    ("GET", "/dcc/reports", {"Host": "other.example:3000"}, 421),
    ("GET", "/dcc/reports", {"Host": "127.0.0.1.other.example"}, 421),
    ("GET", "/dcc/reports", {"Host": "192.0.2.1"}, 421),
    ("POST", "/graphql", {**JSON, "Host": "other.example", "Origin": FOREIGN}, 421),
    ("GET", "/", {"Host": "localhost/@other.example"}, 400),
    ("GET", "/", {"Host": "a@localhost"}, 400),
]


@pytest.mark.usefixtures("untouched")
def test_what_other_sites_could_send_is_refused(page: ServedPage) -> None:
    for method, path, headers, status in REFUSED:
        answer = page.send(method, path, headers, BODY if method == "POST" else "")
        said = answer.read()
        assert answer.status == status, (method, path, headers, said)
        assert answer.getheader("Access-Control-Allow-Origin") is None
        assert b"launchRun" not in said.replace(b"LaunchRun", b"")
    own = f"127.0.0.1:{page.port}"
    assert page.send("GET", "/dcc/reports", [("Host", own), ("Host", "other.example")]).status == 400
    assert page.send("GET", "/dcc/reports", {"Host": ""}).status == 400


@pytest.mark.usefixtures("untouched")
def test_events_are_forged_by_no_other_site(page: ServedPage) -> None:
    for path in REPORTS:
        for headers in ({}, {"Content-Type": "text/plain"}, {**JSON, "Origin": NEIGHBOUR}):
            assert page.send("POST", path, headers, "{}" if headers else "").status in (403, 415), (path, headers)


def test_programs_without_a_browser_and_the_page_itself_are_answered(page: ServedPage) -> None:
    body = json.dumps({"query": QUERY})
    own = {"Origin": page.url, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    named = {"Origin": f"http://localhost:{page.port}", "Host": f"localhost:{page.port}"}
    for headers in (JSON, JSON | own, JSON | named, {"Content-Type": "application/json; charset=utf-8"}):
        answer = page.send("POST", "/graphql", headers, body)
        assert (answer.status, "version" in json.load(answer)["data"]) == (200, True)
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "127.1.2.3:4", "[::1]:3000", "localhost."):
        assert page.send("GET", "/server_info", {"Host": host}).status == 200, host
    link = {"Sec-Fetch-Site": "cross-site", **NAVIGATES}
    assert page.send("GET", "/dcc/reports", link).status == 200


def test_the_pages_name_the_environment(page: ServedPage) -> None:
    report, dagster = (page.send("GET", path, {"Accept": "text/html"}) for path in ("/dcc/reports", "/runs"))
    assert b"<p>Environment: test</p>" in report.read()
    assert re.search(rb'<div role="note" [^>]*>test</div></body>', dagster.read())
    assert "nonce-" in str(dagster.getheader("Content-Security-Policy"))


@pytest.mark.parametrize("path", ["/", "/runs", "/graphql", "/dcc/reports", "/server_info", "/nowhere"])
def test_no_page_can_be_shown_in_a_frame_of_another_site(page: ServedPage, path: str) -> None:
    answer = page.send("GET", path, {"Accept": "text/html"})
    policies = " ".join(answer.msg.get_all("Content-Security-Policy") or [])
    assert "frame-ancestors" in policies
    assert answer.getheader("X-Frame-Options") in ("DENY", "SAMEORIGIN")


def answered(page: ServedPage, origin: str | None, host: str | None = None) -> int:
    name = host or f"127.0.0.1:{page.port}"
    asked = Origin(origin) if origin is not None else None
    try:
        with connect(
            f"ws://{name}/graphql",
            sock=socket.create_connection(("127.0.0.1", page.port)),
            origin=asked,
            subprotocols=[Subprotocol("graphql-ws")],
        ) as opened:
            opened.send(json.dumps({"type": "connection_init"}))
            assert json.loads(opened.recv(30)) == {"type": "connection_ack"}
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def test_websockets_are_opened_by_the_page_and_under_its_own_names_only(page: ServedPage) -> None:
    for origin in (FOREIGN, NEIGHBOUR, "null", "https://127.0.0.1"):
        assert answered(page, origin) == 403, origin
    assert answered(page, page.url) == 101
    assert answered(page, None) == 101
    assert answered(page, FOREIGN, "other.example") in (403, 421)
    assert answered(page, None, "other.example") in (403, 421)


ATTACK = """<!DOCTYPE html><title>waiting</title>
<iframe name="answers"></iframe><iframe id="framed" src="{page}/runs"></iframe>
<form method="post" enctype="text/plain" target="answers" action="{page}/graphql">
<input name='{{"query": {mutation}, "a": "' value='"}}'></form>
<script>
const page = "{page}", query = {mutation}, found = [];
const settle = (what, promise) =>
  promise.then(answer => found.push(what + " " + answer.type), () => found.push(what + " failed"));
const picture = new Promise((_, fail) => {{
  const image = new Image(); image.onerror = fail; image.src = page + "/graphql?query=" + encodeURIComponent(query);
}});
const socket = new Promise((done, fail) => {{
  const opened = new WebSocket(page.replace("http", "ws") + "/graphql", "graphql-ws");
  opened.onopen = () => done({{type: "opened"}}); opened.onerror = fail;
}});
document.forms[0].submit();
const body = JSON.stringify({{query}});
Promise.all([
  settle("picture", picture), settle("socket", socket),
  settle("read", fetch(page + "/dcc/reports")),
  settle("json", fetch(page + "/graphql", {{method: "POST", body, headers: {{"Content-Type": "application/json"}}}})),
  settle("simple", fetch(page + "/graphql", {{method: "POST", mode: "no-cors", body}})),
  settle("tricked", fetch(page + "/graphql", {{method: "POST", mode: "no-cors", body,
    headers: {{"Content-Type": "text/plain;application/json"}}}})),
  settle("forged", fetch(page + "/report_asset_materialization/qc", {{method: "POST", mode: "no-cors"}})),
]).then(() => setTimeout(() => {{ document.title = "over: " + found.sort().join(", "); }}, 1000));
</script>"""


@pytest.mark.servers
@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("host", ["127.0.0.1", REBOUND])
def test_a_page_of_another_site_does_nothing_in_a_browser(
    browser: WebDriver, page: ServedPage, tmp_path: Path, host: str
) -> None:
    with WebServer(tmp_path) as other:
        attack = ATTACK.format(page=page.url, mutation=json.dumps(LAUNCH))
        other.pages["/attack"] = (200, {"Content-Type": "text/html"}, attack.encode())
        browser.get(f"http://{host}:{other.port}/attack")
        WebDriverWait(browser, SEEN_SECONDS).until(lambda window: window.title.startswith("over"))
    found = dict(one.split(" ") for one in browser.title.removeprefix("over: ").split(", "))
    wanted = {"picture": "failed", "socket": "failed", "read": "failed", "json": "failed"}
    assert {name: found[name] for name in wanted} == wanted
    # What a page may send without asking is sent, and answered by a refusal that it cannot read.
    assert {found[name] for name in ("simple", "tricked", "forged")} <= {"failed", "opaque"}
    browser.switch_to.frame("framed")
    assert "Runs" not in browser.find_element(By.TAG_NAME, "body").text
    browser.switch_to.default_content()


@pytest.mark.servers
def test_a_name_that_was_bound_anew_reads_nothing(browser: WebDriver, page: ServedPage) -> None:
    see(browser, f"http://{REBOUND}:{page.port}/dcc/reports", f"not served under the name {REBOUND}")
