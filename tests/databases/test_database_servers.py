"""What database servers are taken, and what is said of those that are not."""

import re
from pathlib import Path

from sqlalchemy import make_url

from dcc.databases.engines import same_database
from dcc.databases.server_requirements import defaults_problem, server_problem

MARIADB = {"version": "10.11.19-MariaDB-0+deb12u1", "version_comment": "Debian 12", "max_allowed_packet": "16777216"}
MYSQL = {"version": "8.4.3", "version_comment": "MySQL Community Server - GPL", "max_allowed_packet": "67108864"}


def test_servers_that_are_fit() -> None:
    for variables in (
        MARIADB,
        MYSQL,
        {**MARIADB, "version": "5.5.5-10.6.16-MariaDB-log"},
        {**MARIADB, "version": "11.8.2-MariaDB"},
        {**MARIADB, "version": "10.11.8", "version_comment": "MariaDB Server"},
        {**MYSQL, "version": "9.5.0"},
        {**MARIADB, "log_bin": "ON", "binlog_format": "MIXED"},
        {**MARIADB, "log_bin": "OFF", "binlog_format": "STATEMENT"},
    ):
        assert server_problem(variables) is None, variables


def test_what_is_wrong_with_a_server_is_said_with_what_to_do() -> None:
    for variables, said in (
        ({**MARIADB, "version": "10.5.23-MariaDB"}, r"is MariaDB 10\.5\.23-MariaDB, and 10\.6 or later is needed"),
        ({**MARIADB, "version": "5.5.5-10.3.39-MariaDB"}, r"10\.6 or later is needed"),
        ({**MYSQL, "version": "5.7.44-log"}, r"is MySQL 5\.7\.44-log, and 8\.0 or later is needed"),
        ({**MYSQL, "version": "tea"}, "none of MariaDB or MySQL"),
        ({**MARIADB, "max_allowed_packet": "1048576"}, r"more than 1,048,576 bytes\. Set max_allowed_packet = 64M"),
        ({**MARIADB, "log_bin": "ON", "binlog_format": "STATEMENT"}, "Set binlog_format = ROW or MIXED"),
    ):
        assert re.search(said, server_problem(variables) or "")


def test_one_database_is_known_by_each_spelling_of_its_url(tmp_path: Path) -> None:
    """Else it would be copied onto itself."""
    (tmp_path / "link.db").symlink_to(tmp_path / "qc.db")
    for one, other, is_same in (
        (f"sqlite:///{tmp_path}/qc.db", f"sqlite:///{tmp_path}/link.db", True),
        (f"sqlite:///{tmp_path}/qc.db", f"sqlite:///{tmp_path}/tracker.db", False),
        ("mysql://dcc:x@127.0.0.1/qc", "mariadb://other@LocalHost:3306/qc", True),
        ("mysql://dcc:x@127.0.0.1/qc", "mysql://dcc:x@127.0.0.1:3307/qc", False),
        ("mysql://dcc:x@127.0.0.1/qc", "mysql://dcc:x@127.0.0.1/tracker", False),
    ):
        assert same_database(make_url(one), make_url(other)) is is_same, (one, other)


def test_defaults_under_which_dagsters_tables_are_right() -> None:
    for defaults, is_fit in (
        (("utf8mb4", "utf8mb4_bin", "InnoDB"), True),
        (("utf8mb4", "utf8mb4_0900_as_cs", "InnoDB"), True),
        (("utf8mb4", "utf8mb4_0900_ai_ci", "InnoDB"), False),
        (("utf8mb3", "utf8mb3_bin", "InnoDB"), False),
        (("utf8mb4", "utf8mb4_bin", "MyISAM"), False),
    ):
        assert (defaults_problem(*defaults) is None) is is_fit, defaults
