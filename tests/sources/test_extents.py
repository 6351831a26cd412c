"""What is listed below the action directories, by depth and patterns: on real servers, over HTTP and in a folder."""

import pytest

from dcc.errors import ListingFailedError
from dcc.settings import Settings
from dcc.sources import listing
from dcc.sources.base import ActionListing, DuplicateEntry, Extent
from dcc.sources.protocols import SourceProtocol
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.served_sources import list_add, register
from tests.support.servers import KINDS_OF_SERVERS, Share

A, B, C, D = (f"H.2013-10-31.{number}.impc.zip" for number in range(1, 5))
pytestmark = pytest.mark.parametrize("any_share", KINDS_OF_SERVERS, indirect=True)


def listed(share: Share, settings: Settings, **extent: object) -> ActionListing:
    return list_add(share.address(extent=Extent(**extent)), settings)  # type: ignore[arg-type]


def test_archives_are_listed_to_the_depth_and_by_the_patterns(any_share: Share, source_settings: Settings) -> None:
    for path in (A, f"2026/{B}", f"2026/{B}.md5", f"2026/old/{C}", f"café d/{D}", "2026/notes.txt"):
        any_share.put(f"add/{path}")
    top, year, old, odd = A, f"2026/{B}", f"2026/old/{C}", f"café d/{D}"
    for extent, expected in (
        ({}, [top]),
        ({"depth": 1}, [top, year, odd]),
        ({"depth": 2}, [top, year, old, odd]),
        ({"depth": 16}, [top, year, old, odd]),
        ({"depth": 2, "include": ("2026/*",)}, [year, old]),
        ({"depth": 2, "include": ("2026/*", A)}, [top, year, old]),
        ({"depth": 2, "exclude": ("2026/old/*",)}, [top, year, odd]),
        ({"depth": 2, "exclude": ("2026/*", "*.2.*")}, [top, odd]),
        ({"include": ("*.impc.zip",), "exclude": ("*.1.*",)}, []),
    ):
        found = listed(any_share, source_settings, **extent)
        assert [file.path for file in found.zips] == expected, extent
        assert all(file.size_bytes == len(b"an archive") for file in found.zips)
        assert [file.name for file in found.zips if file.has_md5] == ([B] if year in expected else [])
        assert found.listed_twice == ()
    assert ("2026", "a directory") in listed(any_share, source_settings).ignored_examples
    left_out = listed(any_share, source_settings, depth=1, exclude=("*.2.*",)).ignored_examples
    assert (year, "left out by the patterns of the file source") in left_out


def test_of_archives_with_one_name_the_one_nearest_to_the_action_directory_is_taken(
    any_share: Share, source_settings: Settings
) -> None:
    for path in (f"z/{A}", f"b/c/{A}", f"b/{B}", f"a/{B}"):
        any_share.put(f"add/{path}")
    found = listed(any_share, source_settings, depth=2)
    assert [file.path for file in found.zips] == [f"z/{A}", f"a/{B}"]
    assert found.listed_twice == (DuplicateEntry(f"a/{B}", f"b/{B}"), DuplicateEntry(f"z/{A}", f"b/c/{A}"))


def test_a_folder_that_links_lead_to_again_is_listed_once(any_share: Share, source_settings: Settings) -> None:
    any_share.put(f"add/a/{A}")
    (any_share.root / "add/a/loop").symlink_to("..", target_is_directory=True)
    (any_share.root / "add/a/none").symlink_to("nowhere")
    (any_share.root / "add/0").symlink_to("a", target_is_directory=True)
    found = listed(any_share, source_settings, depth=4)
    assert [file.name for file in found.zips] == [A]
    if any_share.protocol is SourceProtocol.HTTP:
        # An index page does not tell of links: the depth ends them, and the archive is found twice.
        assert found.zips[0].path == f"0/{A}"
        assert DuplicateEntry(f"0/{A}", f"a/{A}") in found.listed_twice
        return
    assert found.zips[0].path == f"a/{A}"
    assert set(found.listed_twice) == {
        DuplicateEntry("a", "0", is_folder=True),
        DuplicateEntry("", "a/loop", is_folder=True),
    }


def test_bounds_of_a_listing_count_all_levels_together(
    any_share: Share, source_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 7):
        any_share.put(f"add/{number % 2}/H.2013-10-31.{number}.impc.zip")
    monkeypatch.setattr(listing, "_LOOK_EVERY", 1)
    for bound in ("MAX_ENTRIES", "MAX_ZIPS"):
        with monkeypatch.context() as patched:
            patched.setattr(listing, bound, 5)
            assert listed(any_share, source_settings).zips == ()
            with pytest.raises(ListingFailedError, match="more than 5"):
                listed(any_share, source_settings, depth=1)


@only_sqlite
def test_what_lies_in_folders_is_fetched_and_both_paths_of_a_collision_are_told(
    quick: Installation, any_share: Share
) -> None:
    content = b"no archive at all"
    for path in (f"add/2026/{A}", f"add/old/{A}"):
        any_share.put(path, content)
    source_id = register(quick, any_share, extent=Extent(depth=1))
    result = quick.run_session()
    assert result.zips[f"add/{A}"].phase.short_name == "unzip"
    (note,) = result.crawls[source_id].notes
    assert f"two archives of one name: add/2026/{A} and add/old/{A}. Only add/2026/{A} is taken" in note
    # It has moved, and is not another archive.
    (any_share.root / "add/2026").rename(any_share.root / "add/2027")
    again = quick.run_session().crawls[source_id]
    assert (again.new, again.changed, again.gone) == (0, 0, 0)
