"""Secrets are taken out of log records and errors, however they are written there."""

import base64
import html
import json
import logging
import traceback
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import SecretStr

from dcc import redaction
from dcc.errors import ConfigurationError, SourceUnreachableError
from dcc.redaction import MASK, SHORTEST, clean, keep_secret, keep_secrets_of_url, redact, redacted
from dcc.settings import Settings
from dcc.sources.access import Credential
from dcc.sources.remote_names import printable

SPECIAL = "p@ss:w/rd?#%[]&=+ \\'\"<ü€\N{GRINNING FACE}>"
SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=SHORTEST, max_size=30).filter(
    lambda text: text.strip(" *") != "" and not set(text) <= set("*&;#%+")
)


def spellings(secret: str) -> dict[str, str]:
    """How a driver, a server, a URL, a page or Python's own messages would show it."""
    return {
        "plain": secret,
        "in a URL": quote(secret, safe=""),
        "in a path": quote(secret),
        "in a query": quote_plus(secret),
        "in a URL, lower case": quote(secret, safe="").replace("%C3", "%c3"),
        "repr": repr(secret),
        "repr of bytes": repr(secret.encode()),
        "JSON": json.dumps(secret),
        "JSON in Unicode": json.dumps(secret, ensure_ascii=False),
        "HTML": html.escape(secret),
        "wrongly decoded": secret.encode().decode("latin-1"),
        "a server's answer": printable(" ".join(secret.split()).encode()) if " ".join(secret.split()) == secret else "",
        "base64": base64.b64encode(secret.encode()).decode(),
    }


@given(secret=SECRETS)
@example(secret=SPECIAL)
@example(secret="correct horse battery staple")
@example(secret="\N{LATIN SMALL LETTER SHARP S}word")
def test_a_secret_is_found_in_every_spelling(secret: str) -> None:
    assume(MASK not in secret)
    known = redaction._KnownSecrets()
    known.add([secret])
    for how, spelt in spellings(secret).items():
        for shown in (known.redacted(spelt), redact(spelt, [secret]), known.redacted(f"Said {spelt}!")[5:-1]):
            # What is left are the quotes around it.
            assert shown.replace(MASK, "").strip("b'\"") == "", how


@given(secret=SECRETS, text=st.text(max_size=40))
def test_a_text_without_secrets_stays_as_it_is(secret: str, text: str) -> None:
    known = redaction._KnownSecrets()
    known.add([secret])
    assume(not any(form.lower() in text.lower() for form in redaction.forms_of(secret)))
    assume(text.isascii())
    assert known.redacted(text) == text


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("mysql://dcc:s3cret@db/tracker", ["s3cret"]),
        ("mysql://dcc:s3%40cret%2F@db/tracker", ["s3%40cret%2F", "s3@cret/"]),
        ("mysql://dcc:not/encoded@x?@db/tracker", ["not/encoded@x?"]),
        ("smtp://user:pass%20word@mail:587", ["pass%20word", "pass word"]),
        ("mysql://db/tracker?password=s3cret", ["s3cret"]),
        ("mysql://dcc:s3cret@[db/tracker", ["s3cret"]),
    ],
)
def test_the_password_of_a_url_is_known_encoded_or_not(url: str, secrets: list[str]) -> None:
    keep_secrets_of_url(url)
    assert [redacted(f"It was {secret}.") for secret in secrets] == ["It was ***."] * len(secrets)
    assert not any(secret in redacted(f"{secret} {url}") for secret in secrets)


def test_the_urls_and_passphrase_of_settings_are_known_as_soon_as_they_are_read() -> None:
    Settings(
        tracker_url=SecretStr("mysql://dcc:trackerword@db/tracker"),
        qc_url=SecretStr("mysql://dcc:qualityword@db/qc"),
        dagster_url=SecretStr("mysql://dcc:dagsterword@db/dagster"),
        smtp_url=SecretStr("smtp://dcc:mailword@mail"),
        key_passphrase=SecretStr("open the sesame"),
    )
    said = redacted("trackerword qualityword dagsterword mailword open the sesame /data/tracker.db")
    assert said == "*** *** *** *** *** /data/tracker.db"


def test_a_private_key_is_known_line_by_line() -> None:
    lines = [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1rZXktdjEAAAAA",
        "AAAEAAAAABAAAAMwAAAAtzc2",
        "-----END-----",
    ]
    Credential(private_key=SecretStr("\n".join(lines)))
    assert redacted(f"Bad line {lines[2]!r} after {lines[0]}") == f"Bad line '***' after {lines[0]}"


def test_short_secrets_are_taken_out_only_of_what_a_server_answers() -> None:
    keep_secret("abc")
    assert redacted("abcdef") == "abcdef"
    assert redact("530 ABC is wrong", ["abc"]) == "530 *** is wrong"


def test_errors_of_the_platform_hold_no_known_secret() -> None:
    keep_secret("correct horse")
    assert str(ConfigurationError("Correct horse is no battery.")) == "*** is no battery."
    assert repr(SourceUnreachableError("correct%20horse")) == "SourceUnreachableError('***')"


def test_log_records_hold_no_known_secret_whoever_shows_them(caplog: pytest.LogCaptureFixture) -> None:
    keep_secret("correct horse")
    logger = logging.getLogger("some.driver")
    caplog.set_level(logging.DEBUG)
    logger.debug("Authentication failed: %s (%d)", "password 'correct horse'", 3)
    logger.debug("Connecting with %(password)s", {"password": "correct%20horse"})
    logger.debug("Nothing %s", "here")
    logger.debug("correct horse %s %s", "too few")
    try:
        raise OSError(5, "correct horse is wrong")
    except OSError:
        logger.exception("It failed")
    assert "horse" not in caplog.text
    assert [record.getMessage() for record in caplog.records][:3] == [
        "Authentication failed: password '***' (3)",
        "Connecting with ***",
        "Nothing here",
    ]
    assert "[Errno 5] *** is wrong" in caplog.text
    assert not any("horse" in logging.Formatter().format(record) for record in caplog.records)
    shown = [traceback.format_exception(*record.exc_info) for record in caplog.records if record.exc_info]
    assert shown
    assert "horse" not in str(shown)


class StubbornError(Exception):
    """Says what it says whatever its arguments."""

    def __str__(self) -> str:
        return "Access denied for correct horse"


def raised(error: Exception, cause: BaseException | None) -> BaseException:
    try:
        raise error from cause
    except Exception as caught:
        return caught


def test_an_exception_is_cleaned_with_those_behind_it() -> None:
    keep_secret("correct horse")
    refused = raised(OSError(13, "refused correct horse"), StubbornError())
    error = raised(RuntimeError("The login with correct horse failed"), refused)
    clean(error)
    told = "".join(traceback.format_exception(error))
    assert "horse" not in told
    assert "RuntimeError: The login with *** failed" in told
    assert "PermissionError: [Errno 13] refused ***" in told
    assert "HiddenError: StubbornError: Access denied for ***" in told
