"""The object store, in a directory and in a bucket: whole or not there, checked when it is read back, patient."""

import logging
import os
import re
import string
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dcc.errors import (
    BadFileNameError,
    ConfigurationError,
    StoredObjectLostError,
    StoreRefusedError,
    StoreUnreachableError,
)
from dcc.runtime.checksums import md5_of
from dcc.settings import Settings, load_settings
from dcc.store.objects import ObjectStore, is_key, object_key
from tests.support.faulty_servers import CuttingProxy
from tests.support.prepared_processes import FORKED
from tests.support.s3_server import SECRET_ACCESS_KEY, Bucket, S3Server
from tests.support.trials import trials
from tests.support.waiting import wait_until

NAME = "archives/add/H.2013-10-31.1.impc.zip"
PATIENCE = 40.0

StoreSettings = Callable[..., Settings]


@pytest.fixture(params=["directory", "s3"])
def store_settings(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSettings:
    """Settings of an empty store of each kind, with changes."""
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        return bucket.settings
    return lambda **changes: load_settings(**({"home": tmp_path, "store": str(tmp_path / "objects")} | changes))


@pytest.fixture
def store(store_settings: StoreSettings) -> ObjectStore:
    """An empty store of each kind."""
    return ObjectStore(store_settings(store_retry=PATIENCE))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A file to put there."""
    path = tmp_path / "archive.zip"
    path.write_bytes(b"an archive" * 1000)
    return path


def test_what_is_put_there_comes_back_and_the_same_bytes_are_one_object(
    store: ObjectStore, archive: Path, tmp_path: Path
) -> None:
    store.remove_parts(older_than=timedelta())
    assert store.keys() == []
    key = store.put(NAME, archive)
    assert key == object_key(NAME, md5_of(archive)) == store.put(NAME, archive)
    assert store.exists(key)
    assert store.keys() == store.keys("archives/") == store.keys(f"{NAME}.") == [key]
    assert store.keys("archives/edit/") == store.keys("prepared/") == []
    store.get(key, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == archive.read_bytes()
    archive.write_bytes(b"another archive")
    other = store.put(NAME, archive)
    assert store.keys(f"{NAME}.") == sorted([key, other])
    for one in (key, key, other):
        store.delete(one)
    assert not store.exists(key)
    assert store.keys() == []
    (tmp_path / "back").unlink()
    with pytest.raises(StoredObjectLostError, match=f"{re.escape(key)} is not in the store .*must be made again"):
        store.get(key, tmp_path / "back")
    assert list(tmp_path.glob("*back*")) == []


def test_an_object_larger_than_a_part_of_an_upload(bucket: Bucket, archive: Path, tmp_path: Path) -> None:
    store = ObjectStore(bucket.settings())
    archive.write_bytes(os.urandom(20 * 1024 * 1024 + 1))
    store.get(store.put(NAME, archive), tmp_path / "back")
    assert md5_of(tmp_path / "back") == md5_of(archive)


def test_other_bytes_than_were_put_there_are_not_taken(
    store: ObjectStore, archive: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    key = store.put(NAME, archive)
    wrong = archive.read_bytes()[:-1] + b"!"
    if store.url.startswith("s3:"):
        bucket: Bucket = request.getfixturevalue("bucket")
        bucket.client.put_object(Bucket=bucket.name, Key=f"dcc/{key}", Body=wrong)
    else:
        (Path(store.url) / key).write_bytes(wrong)
    (tmp_path / "back").write_bytes(b"what was there")
    with pytest.raises(StoredObjectLostError, match="other bytes in the store than were put there"):
        store.get(key, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"what was there"
    store.put(NAME, archive)
    store.get(key, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == archive.read_bytes()


UNFIT = ("", "/x", "x/", "a//b", "../x", "a/../b", ".x", "a/.x", "a\\b", "a\nb", "a\0b", "a?versionId=1", "\udc80")


@pytest.mark.parametrize("name", [*UNFIT, "é" * 120])
def test_a_name_that_no_object_can_have_is_refused(name: str, archive: Path, tmp_path: Path) -> None:
    store = ObjectStore(load_settings(home=tmp_path))
    with pytest.raises(BadFileNameError):
        store.put(name, archive)
    with pytest.raises(BadFileNameError):
        store.get(f"{name}.{'0' * 32}", tmp_path / "back")
    assert not is_key(f"{name}.{'0' * 32}")


PARTS = st.text(
    st.sampled_from(string.ascii_letters + string.digits + " ._-+~!@#$%^&*()[]{}=,;:'\"<>|`éß€漢😀"),
    min_size=1,
    max_size=12,
)
NAMES = st.lists(PARTS.filter(lambda part: not part.startswith(".")), min_size=1, max_size=3).map("/".join)


@hypothesis_settings(max_examples=trials(40))
@given(names=st.lists(NAMES, min_size=1, max_size=4, unique=True), content=st.binary(max_size=40), data=st.data())
def test_any_names_come_back_as_they_are(
    store: ObjectStore, tmp_path: Path, names: list[str], content: bytes, data: st.DataObject
) -> None:
    left = store.keys()
    for key in left:
        # Of an example that Hypothesis broke off.
        store.delete(key)
    path = tmp_path / "file"
    path.write_bytes(content)
    keys = {store.put(name, path) for name in names}
    assert set(store.keys()) == keys
    prefix = data.draw(st.sampled_from(sorted(keys)))[: data.draw(st.integers(0, 20))]
    assert store.keys(prefix) == sorted(key for key in keys if key.startswith(prefix))
    for key in sorted(keys):
        store.get(key, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content
    gone = data.draw(st.sampled_from(sorted(keys)))
    store.delete(gone)
    assert set(store.keys()) == keys - {gone}


def put_without_end(files: Path, settings: Settings, ready: Path) -> None:
    """Put the files of a folder there again and again, with these settings; `ready` is there when that begins."""
    store = ObjectStore(settings)
    ready.touch()
    while True:
        for path in sorted(files.iterdir()):
            store.put(f"prepared/{path.name}", path)


def test_a_process_that_is_killed_leaves_nothing_half_there(
    store_settings: StoreSettings, store: ObjectStore, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    random = Random(27)
    for number in range(3):
        (files / f"{number}.rows").write_bytes(random.randbytes(4_000_000 + 9_000_000 * number))
    seen = set()
    for _ in range(trials(6)):
        ready = tmp_path / "ready"
        child = FORKED.Process(target=put_without_end, args=(files, store_settings(), ready))
        child.start()
        wait_until(ready.exists)
        time.sleep(random.uniform(0.05, 0.6))
        child.kill()
        child.join()
        ready.unlink()
        listed = store.keys()
        for key in listed:
            store.get(key, tmp_path / "back")
            seen.add(key)
            store.delete(key)
    assert seen <= {object_key(f"prepared/{path.name}", md5_of(path)) for path in files.iterdir()}


def test_parts_of_killed_processes_go_from_a_bucket_when_they_are_old(bucket: Bucket, archive: Path) -> None:
    store = ObjectStore(bucket.settings())
    key = store.put(NAME, archive)
    for name in (f"dcc/{NAME}.{'0' * 32}", "others/upload"):
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key=name)

    def uploads() -> list[str]:
        return [one["Key"] for one in bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", ())]

    # The server says of all of them that they were begun in 2010.
    store.remove_parts(older_than=datetime.now(UTC) - datetime(2010, 1, 1, tzinfo=UTC))
    assert len(uploads()) == 2
    store.remove_parts(older_than=timedelta(days=1))
    assert uploads() == ["others/upload"]
    assert store.keys() == [key]


@pytest.fixture
def doorway(bucket: Bucket) -> Any:
    """A proxy before the server, by which it goes away and comes back."""
    with CuttingProxy(bucket.server.hostname) as proxy:
        yield proxy


def store_behind(bucket: Bucket, proxy: CuttingProxy, **changes: Any) -> ObjectStore:
    return ObjectStore(bucket.settings(store_endpoint=f"http://{proxy.hostname}", **changes))


def test_a_server_that_is_away_for_a_time_is_waited_for(
    bucket: Bucket, doorway: CuttingProxy, archive: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_behind(bucket, doorway, store_retry=PATIENCE)
    key = store.put(NAME, archive)
    asks: tuple[Callable[[], object], ...] = (
        lambda: store.get(key, tmp_path / "back"),
        lambda: store.put("another", archive),
        lambda: store.exists(key),
        lambda: store.keys(),
        lambda: store.delete(key),
    )
    for ask in asks:
        doorway.go_away()
        timer = threading.Timer(0.2, doorway.come_back)
        timer.start()
        caplog.clear()
        with caplog.at_level(logging.WARNING, "dcc"):
            ask()
        timer.join()
        (said,) = [record.getMessage() for record in caplog.records]
        assert f"The store {store.url} is away and is tried again for 40 s" in said
    assert (tmp_path / "back").read_bytes() == archive.read_bytes()
    assert store.keys() == [object_key("another", md5_of(archive))]


def test_a_server_that_stays_away_is_named(
    bucket: Bucket, doorway: CuttingProxy, archive: Path, tmp_path: Path
) -> None:
    store = store_behind(bucket, doorway, store_retry=0.2)
    doorway.go_away()
    began = time.monotonic()
    for ask in (lambda: store.put(NAME, archive), lambda: store.get(object_key(NAME, "0" * 32), tmp_path / "back")):
        with pytest.raises(StoreUnreachableError, match=rf"{store.url} could not be reached to .*Could not connect"):
            ask()
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("fault", [{"cut_after": 5_000}, {"flip_at": 5_000}])
def test_bytes_that_are_lost_or_changed_on_the_way_are_not_taken(
    bucket: Bucket, archive: Path, tmp_path: Path, fault: dict[str, Any]
) -> None:
    key = ObjectStore(bucket.settings()).put(NAME, archive)
    with CuttingProxy(bucket.server.hostname, **fault) as proxy:
        behind = store_behind(bucket, proxy, store_retry=0)
        with pytest.raises((StoredObjectLostError, StoreUnreachableError)):
            behind.get(key, tmp_path / "back")
    assert list(tmp_path.glob("*back*")) == []


@pytest.fixture
def guarded(tmp_path: Path) -> Any:
    """A bucket of a server that asks for credentials, with those that it takes."""
    with S3Server(tmp_path, open_requests=4) as server:
        users = server.client("iam")
        users.create_user(UserName="dcc")
        rights = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
        users.put_user_policy(UserName="dcc", PolicyName="all", PolicyDocument=rights)
        made = users.create_access_key(UserName="dcc")["AccessKey"]
        server.client().create_bucket(Bucket="guarded")
        yield Bucket(server, "guarded", tmp_path / "home"), made["AccessKeyId"], made["SecretAccessKey"]


def test_credentials(
    guarded: tuple[Bucket, str, str],
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Right ones by each way that settings have are taken; wrong and missing ones are refused, and never shown."""
    bucket, key_id, secret = guarded
    caplog.set_level(logging.DEBUG)
    (tmp_path / "secret").write_text(f"{secret}\n")
    (tmp_path / "secret").chmod(0o600)
    monkeypatch.setenv("SECRET_OF_THE_BUCKET", secret)
    for given_secret in (secret, f"file:{tmp_path / 'secret'}", "env:SECRET_OF_THE_BUCKET"):
        settings = bucket.settings(store_access_key_id=key_id, store_secret_access_key=given_secret)
        assert ObjectStore(settings).put(NAME, archive)

    refused = []
    for settings in (
        bucket.settings(store_access_key_id=key_id),
        bucket.settings(),
        bucket.settings(store_access_key_id=key_id, store_secret_access_key=f"wrong+{SECRET_ACCESS_KEY}"),
    ):
        store = ObjectStore(settings)
        asks: tuple[Callable[[], object], ...] = (
            lambda: store.put(NAME, archive),  # noqa: B023
            lambda: store.exists(object_key(NAME, "0" * 32)),  # noqa: B023
            lambda: store.keys(),  # noqa: B023
        )
        for ask in asks:
            with pytest.raises(StoreRefusedError, match=r"refused to .*DCC_STORE_SECRET_ACCESS_KEY") as error:
                ask()
            refused.append(f"{error.value} {error.value!r} {store!r}")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreRefusedError, match="credentials"):
        ObjectStore(load_settings(home=tmp_path, store="s3://guarded", store_endpoint=bucket.server.endpoint)).keys()
    shown = "\n".join([caplog.text, *refused])
    assert secret not in shown
    assert SECRET_ACCESS_KEY not in shown


def test_what_is_the_operators_matter_is_said(bucket: Bucket, archive: Path, tmp_path: Path) -> None:
    """A secret that is nowhere, a bucket that there is not, a place that cannot be written to, a missing package."""
    with pytest.raises(ConfigurationError, match=r"none, to which the setting DCC_STORE_SECRET_ACCESS_KEY refers"):
        bucket.settings(store_secret_access_key=f"file:{tmp_path / 'none'}")
    with pytest.raises(StoreRefusedError, match=r"s3://no-such-bucket refused .*bucket does not exist.*DCC_STORE"):
        ObjectStore(bucket.settings(store="s3://no-such-bucket")).put(NAME, archive)
    (tmp_path / "file").touch()
    with pytest.raises(StoreRefusedError, match=r"refused to put .*Not a directory"):
        ObjectStore(load_settings(home=tmp_path, store=str(tmp_path / "file" / "store"))).put(NAME, archive)
    with pytest.raises(ConfigurationError, match=r"the package gcsfs is not installed.*pip install gcsfs"):
        ObjectStore(load_settings(home=tmp_path, store="gs://bucket")).keys()
