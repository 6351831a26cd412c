"""The set-up of fsspec for each kind of store, and the meaning of its errors.

A directory, S3 and SFTP are set up here; `gs://` and `az://` use what fsspec and their packages find by themselves. On
all of them an upload is complete or absent.
"""

from __future__ import annotations

import base64
import errno
import os
import shutil
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, Final

from fsspec import AbstractFileSystem, filesystem
from fsspec.implementations.local import LocalFileSystem

from dcc.errors import (
    ConfigurationError,
    DiskFullError,
    SourceError,
    SourceTimeoutError,
    SourceUnreachableError,
    StoreRefusedError,
    StoreUnreachableError,
)
from dcc.messages import mark
from dcc.redaction import keep_secret
from dcc.runtime.disk_space import is_full, no_space_left
from dcc.runtime.private_files import PART_NAMES, PRIVATE_FILE, make_directory, replacement_file
from dcc.settings import Settings

_PART: Final = 8 * 1024 * 1024
_MAX_PARTS: Final = 10_000
_PARTS_AT_ONCE: Final = 4
_SLOWEST: Final = 50_000
"""Bytes a second below which an upload is given up."""
_PACKAGES: Final = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}
_PASSING: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EREMOTEIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


class Directory(LocalFileSystem):  # type: ignore[misc]
    """A directory's files: each gets its name once it is complete and on the disk."""

    def put_file(self, source: str, target: str, **_: object) -> None:
        """Copy a file there, and make its directories. Raises OSError."""
        make_directory(Path(target).parent)
        with replacement_file(Path(target), PRIVATE_FILE) as part:
            shutil.copyfile(source, part)

    def find(self, path: str, **_: object) -> list[str]:
        """The files below a directory; none if it does not exist. Raises OSError if it cannot be read."""
        if not Path(path).is_dir():
            return []
        return [f"{folder}/{name}" for folder, _, names in os.walk(path, onerror=_raise) for name in names]


def _raise(error: OSError) -> None:
    raise error


def open_filesystem(settings: Settings, scheme: str, login: str = "") -> AbstractFileSystem:
    """The file system of a kind of store, set up by the settings; it connects on first use.

    `login` is `user@host` or `user@host:port` of an SFTP server, to which it connects at once; raises SourceError then.
    Raises ConfigurationError for a kind whose package is not installed, and for an unreadable secret.
    """
    if scheme == "file":
        return Directory(skip_instance_cache=True)
    if scheme == "sftp":
        from dcc.store.sftp_filesystem import SftpFiles

        return SftpFiles(settings, login)
    try:
        if scheme != "s3":
            return filesystem(scheme, skip_instance_cache=True, use_listings_cache=False)
        files = filesystem("s3", **_s3_options(settings))
    except ImportError as error:
        package = _PACKAGES[scheme]
        raise ConfigurationError(
            f"A store begins with {scheme}://, for which the package {package} is not installed. "
            f"Install it: pip install {package}"
        ) from error
    # The caller repeats, for as long as the settings say.
    files.retries = 1
    return files


def _s3_options(settings: Settings) -> Mapping[str, Any]:
    secret = settings.store_secret_access_key
    trusted = settings.tls_ca_file or ssl.get_default_verify_paths().cafile
    # Credentials that the library may find by itself.
    keep_secret(os.environ.get("AWS_SECRET_ACCESS_KEY"), os.environ.get("AWS_SESSION_TOKEN"))
    return {
        "endpoint_url": settings.store_endpoint,
        "key": settings.store_access_key_id,
        "secret": None if secret is None else secret.get_secret_value(),
        "client_kwargs": {} if trusted is None else {"verify": str(trusted)},
        "config_kwargs": {
            "connect_timeout": settings.connect_timeout,
            "read_timeout": settings.idle_timeout,
            "retries": {"max_attempts": 0},
            # Some servers lack the newer checksums; the MD5 is sent with uploads of a single request.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        },
        "default_block_size": _PART,
        "max_concurrency": _PARTS_AT_ONCE,
        "use_listings_cache": False,
        "skip_instance_cache": True,
    }


def upload_options(
    files: AbstractFileSystem, settings: Settings, size_bytes: int, md5: str | None = None
) -> Mapping[str, Any]:
    """Options of an upload: the size of its parts, its time limit, and the MD5 for the server to compare."""
    if "s3" not in files.protocol:
        return {}
    checksum = {} if md5 is None else {"ContentMD5": base64.b64encode(bytes.fromhex(md5)).decode("ascii")}
    return checksum | {
        "chunksize": max(_PART, -(-size_bytes // _MAX_PARTS)),
        # The library does not limit how long a server may take before it accepts data.
        "timeout": settings.connect_timeout + settings.idle_timeout + size_bytes / _SLOWEST,
    }


def remove_parts(files: AbstractFileSystem, root: str, before: datetime) -> None:
    """Remove parts of uploads that were not continued since `before`; raises errors of the file system.

    On S3 at most a thousand at once. `gs://` and `az://` remove such parts themselves after a week.
    """
    if isinstance(files, Directory):
        for part in Path(root).rglob(PART_NAMES):
            if datetime.fromtimestamp(part.stat().st_mtime, UTC) < before:
                part.unlink(missing_ok=True)
    elif "sftp" in files.protocol:
        for found in files.ls(root, detail=True):
            if fnmatch(PurePosixPath(found["name"]).name, PART_NAMES) and found["mtime"] < before:
                files.rm_file(found["name"])
    elif "s3" in files.protocol:
        bucket, prefix, _ = files.split_path(root)
        place = {"Prefix": f"{prefix}/"} if prefix else {}
        listed = files.call_s3("list_multipart_uploads", Bucket=bucket, **place)
        for upload in listed.get("Uploads", ()):
            if upload["Initiated"] < before:
                files.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


@contextmanager
def store_errors(url: str, doing: str, remedy: str) -> Iterator[None]:
    """Turn errors of a file system into those of a store; FileNotFoundError passes. `remedy` is for a refusal.

    Raises StoreUnreachableError, DiskFullError and StoreRefusedError.
    """
    try:
        yield
    except (FileNotFoundError, StoreUnreachableError, StoreRefusedError, DiskFullError):
        raise
    except Exception as error:
        if is_unreachable(error):
            raise StoreUnreachableError(
                f"The store {url} could not be reached to {doing}: {reason_of(error)}. See to its server and "
                "the network; the next session goes on."
            ) from error
        if is_full(error):
            raise DiskFullError(
                mark("The store {store} has no room to {doing} ({reason}). Free some space there."),
                store=url,
                doing=doing,
                reason=reason_of(error) if "://" in url else no_space_left(Path(url)),
            ) from error
        if is_refusal(error):
            raise StoreRefusedError(f"The store {url} refused to {doing}: {reason_of(error)}. {remedy}") from error
        raise


def reason_of(error: BaseException) -> str:
    """What an error of a file system says, without a point at its end."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{text or type(error).__name__}".rstrip(".")


def is_unreachable(error: BaseException) -> bool:
    """Whether an error means that the store does not answer, so that another try may succeed."""
    if isinstance(error, (TimeoutError, ConnectionError, EOFError, SourceTimeoutError, SourceUnreachableError)):
        return True
    if _is_of(error, "aiohttp", "ClientError") or _is_of(error, "paramiko", "SSHException"):
        return True
    if _is_of(error, "botocore", "SSLError"):
        return False
    if any(_is_of(error, "botocore", kind) for kind in ("ConnectionError", "HTTPClientError", "ResponseParserError")):
        return True
    return isinstance(error, OSError) and error.errno in _PASSING


def is_refusal(error: BaseException) -> bool:
    """Whether an error means that the store refuses, however often it is asked."""
    known = isinstance(error, (OSError, SourceError, ConfigurationError))
    return known or any(_is_of(error, "botocore", kind) for kind in ("BotoCoreError", "SSLError"))


def _is_of(error: BaseException, package: str, name: str) -> bool:
    """Whether an error is of a class of a package that may not be installed."""
    return any(kind.__name__ == name and kind.__module__.startswith(package) for kind in type(error).__mro__)
