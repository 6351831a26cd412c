"""Names and addresses of the web page: as settings give them, and as requests do."""

import pytest

from dcc.settings.hosts import parse_authority, parse_hosts, parse_origin


def test_hosts_are_read_without_their_ports() -> None:
    assert parse_hosts("") == parse_hosts(" , ") == set()
    assert parse_hosts("dcc.example.org") == {"dcc.example.org"}
    several = parse_hosts("DCC.Example.org:8443, 192.0.2.7 ,[2001:DB8::7]:443,2001:db8:0::8,")
    assert several == {"dcc.example.org", "192.0.2.7", "2001:db8::7", "2001:db8::8"}


def test_what_is_no_host_is_none() -> None:
    for text in ("", "a:b", "a:123456", "[::1", "[g::]", "a/b", "a@b", "ä", ".", "a\nb", "a b"):
        assert parse_authority(text) is None, text


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://localhost:3000", "localhost:3000", True),
        ("http://LOCALHOST:3000", "localhost:3000", True),
        ("http://localhost:3000", "localhost:3001", False),
        ("http://localhost:3000", "127.0.0.1:3000", False),
        ("http://localhost", "localhost:80", True),
        ("https://dcc.example.org", "dcc.example.org", True),
        ("https://dcc.example.org", "dcc.example.org:443", True),
        ("https://dcc.example.org:8443", "dcc.example.org", False),
        ("http://[::1]:3000", "[::1]:3000", True),
    ],
)
def test_an_origin_is_compared_with_the_host_that_is_asked(origin: str, host: str, same: bool) -> None:
    parsed, asked = parse_origin(origin), parse_authority(host)
    assert parsed is not None
    assert asked is not None
    assert parsed[1].is_same(asked, parsed[0]) is same
