"""Groups of centres, as `DCC_GROUPS` names them."""

import pytest

from dcc.errors import ConfigurationError
from dcc.settings import load_settings


def test_each_group_has_its_centres() -> None:
    for text, expected in (
        ("", {}),
        (" ; ", {}),
        ("europe=H", {"europe": {"H"}}),
        ("europe = H, Wtsi,H ; asia=Rbrc;", {"europe": {"H", "Wtsi"}, "asia": {"Rbrc"}}),
    ):
        groups = load_settings(groups=text).centre_groups
        assert {name: group.centres for name, group in groups.items()} == expected


def test_a_wrong_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, said in (
        ("europe", "'europe' is no group of centres"),
        ("europe=", "'europe=' is no group of centres"),
        ("=H", "'=H' is no group of centres"),
        ("the north=H", "is no group of centres"),
        ("europe=H=J", "is no group of centres"),
        ("europe=H,asia=J", "is no group of centres"),
        ("europe=H;europe=J", "group europe is there twice"),
        ("the-north=H;the_north=J", "groups the-north and the_north differ by hyphens alone"),
        ("europe=H,J;asia=J", "Centre J is in the groups europe and asia"),
    ):
        monkeypatch.setenv("DCC_GROUPS", text)
        with pytest.raises(ConfigurationError, match=f"DCC_GROUPS: .*{said}"):
            load_settings()


def test_groups_have_intervals_of_their_own() -> None:
    intervals = load_settings(group_intervals=" europe=0 */2 * * * ;asia = 30 3 * * *;").intervals_of_groups
    assert intervals == {"europe": "0 */2 * * *", "asia": "30 3 * * *"}


def test_a_wrong_interval_of_a_group_is_refused() -> None:
    for text, said in (
        ("0 * * * *", "is no interval of a group"),
        ("europe=", "'europe=' is no interval of a group"),
        ("europe=0 * * * *;europe=1 * * * *", "group europe is there twice"),
    ):
        with pytest.raises(ConfigurationError, match=f"DCC_GROUP_INTERVALS: .*{said}"):
            load_settings(group_intervals=text)
