"""Wrong use and unknown names: each command ends with 2, in one line that says what to do, and changes nothing."""

import shlex

import pytest

from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite

ADD = "add/H.2013-10-31.1.impc.zip"
EMAIL = "--email 'a@b.example, nonsense'"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("nonsense", "No such command 'nonsense'"),
        ("zips --phase nonsense", "'nonsense' is not one of"),
        ("zips --since yesterday", "'yesterday' is no time such as 2026-11-21 or 2026-11-21T14:30."),
        ("rules waive P9 --until soon --reason ?", "'soon' is no date such as 2026-11-21."),
        ("crawl --downloaders 0", "0 is not in the range"),
        ("centre add H", "Centre H is registered already. See `dcc centre list`"),
        ("centre add New_Centre", "--name"),
        ("centre add H1 --name x", "ILAR"),
        ("centre add Ics --language dk", "language dk has no catalogue"),
        ("centre add Ics --email nonsense", "'nonsense' is no e-mail address"),
        (f"centre add Ics {EMAIL}", "'nonsense' is no e-mail address"),
        ("centre add Ics --email ,", "holds no e-mail address"),
        ("centre activate X", "No centre 'X'"),
        ("centre deactivate X", "No centre 'X'"),
        ("centre change X --email a@b", "No centre 'X'"),
        ("centre change H", "dcc centre change --help"),
        ("centre change H --language German!", "no code of a language"),
        ("centre change H --language dk", "Name another one (de, en"),
        ("centre change H --name ''", "full name"),
        ("centre change H --email nonsense", "'nonsense' is no e-mail address"),
        (f"centre change H {EMAIL}", "'nonsense' is no e-mail address"),
        ("centre change H --email ,", "holds no e-mail address"),
        ("centre delegate H --to X", "No centre 'X'"),
        ("centre delegate H --to H", "speaks for itself"),
        ("centre delegate H --to J --until 2001-01-01", "is over"),
        ("centre delegate H --to J --revoke", "dcc centre delegations"),
        ("centre delegate H --to J --revoke --until 2999-12-31", "exclude each other"),
        ("source add", "Options are missing: --centre, --protocol. "),
        ("source add --centre H", "Options are missing: --protocol. "),
        ("source add --centre H --protocol sftp", "--hostname"),
        ("source add --protocol sftp", "Options are missing: --centre, --hostname. "),
        ("source add --centre H --protocol file", "Options are missing: --base-path. "),
        ("source add --centre X --protocol ftp --hostname 127.0.0.1:1", "dcc centre add X"),
        ("source add --centre H --protocol ftp --hostname user:pass@host", "'@'"),
        ("source add --centre H --protocol ftp --hostname host:99999", "port"),
        ("source add --centre H --protocol ftp --hostname 'ho st'", "no host name"),
        ("source add --centre H --protocol sftp --hostname x.invalid --tls-ca ca.pem", "has no --tls-ca"),
        (
            "source add --centre H --protocol sftp --hostname x.invalid --tls-fingerprint SHA256:00",
            "protocol sftp has no --tls-fingerprint: leave that out. It has --base-path, --hostname, --username, ",
        ),
        (
            "source add --centre H --protocol file --base-path /x --hostname x.invalid --username u",
            "protocol file has no --hostname and no --username: leave that out. It has --base-path, --depth.",
        ),
        ("source add --centre H --protocol file --base-path /x --accesskey env:X", "has no --accesskey"),
        ("source add --centre H --protocol ftp --hostname x.invalid --accept-host-key", "has no --accept-host-key"),
        ("source add --centre H --protocol ftps --hostname x.invalid --tls-ca /none.pem", "/none.pem cannot be read"),
        ("source add --centre H --protocol https --hostname x.invalid --tls-fingerprint SHA256:00", "no SHA-256 "),
        ("rules waive P99 --reason ?", "dcc rules list"),
        ("rules waive reference --reason ?", "cannot be waived"),
        ("rules waive Q6 --centre H --reason ?", "cannot be waived"),
        ("rules waive S4 --procedure IMPC_BWT_001 --reason ?", "Leave the procedure out"),
        ("rules waive S14 --warn --reason ?", "only ever warns"),
        ("rules waive P9 --until 2020-01-01 --reason ?", "before it begins"),
        ("rules waive P9 --centre h --reason ?", "No centre 'h' exists"),
        ("rules waive P9 --reason ''", "reason"),
        ("rules revoke 7 --reason ?", "dcc rules waivers --all"),
        (f"data plan {ADD}", "waits to be uploaded"),
        (f"data undo {ADD} --reason x", "stands"),
        ("data history --centre H --specimen S1", "ever named"),
        ("data recheck --reason x", "which documents"),
        ("data recheck --all --reason ' '", "reason is empty"),
        ("source pause 1 --reason ' '", "reason is empty"),
        (f"source pause 1 --reason {'x' * 257}", "256 fit"),
        ("backup --verify . --keep 1", "--verify goes with none of the other options"),
        ("backup --verify .", "holds no whole backup"),
        ("restore . --yes", "--yes goes with --replace"),
        ("restore .", "holds no whole backup"),
        ("migrate-storage", "Set DCC_TARGET_TRACKER_URL and DCC_TARGET_QC_URL"),
    ],
)
def test_wrong_use_is_refused_with_what_to_do(shared_dcc: Dcc, asked: str, said: str) -> None:
    assert said in shared_dcc.error(*shlex.split(asked), exit_code=2)


def test_nothing_was_changed(shared_dcc: Dcc) -> None:
    assert [centre["short_name"] for centre in shared_dcc.json("centre", "list")] == ["H", "J"]
    for nothing in (("source", "list"), ("centre", "delegations"), ("rules", "waivers", "--all")):
        assert shared_dcc.json(*nothing) == []


@only_sqlite
def test_several_addresses_of_a_centre_are_taken_and_removed(dcc: Dcc) -> None:
    assert dcc.json("centre", "change", "H", "--email", "a@b, c@d.example")["email"] == "a@b, c@d.example"
    assert dcc.json("centre", "change", "H", "--email", "")["email"] == ""
