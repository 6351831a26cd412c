"""A private vsftpd on loopback, for anonymous users. It must be started by root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.openssh import await_port, free_port

_SEARCH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin"
_DATA_PORTS = 60


@dataclass(frozen=True, slots=True)
class Vsftpd:
    """A running server: its port, and those of its data connections."""

    port: int
    data_ports: range


@contextmanager
def vsftpd_server(folder: Path, root: Path) -> Iterator[Vsftpd]:
    """Serve `root` with the server's files in `folder`. Raises FileNotFoundError when vsftpd is not installed."""
    vsftpd = shutil.which("vsftpd", path=_SEARCH)
    if vsftpd is None:
        raise FileNotFoundError("vsftpd is not installed: as root, apt-get install vsftpd.")
    empty = folder / "empty"
    empty.mkdir(parents=True)
    port = free_port()
    first = 20_000 + os.getpid() % 100 * _DATA_PORTS
    options = {
        "listen": "YES",
        "listen_address": "127.0.0.1",
        "listen_port": port,
        "background": "NO",
        "anonymous_enable": "YES",
        "anon_root": root,
        "anon_world_readable_only": "NO",
        "port_enable": "NO",
        "pasv_min_port": first,
        "pasv_max_port": first + _DATA_PORTS - 1,
        "secure_chroot_dir": empty,
        "seccomp_sandbox": "NO",
        "xferlog_enable": "NO",
    }
    configuration = folder / "vsftpd.conf"
    configuration.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([vsftpd, str(configuration)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        await_port(port, process, folder / "log")
        yield Vsftpd(port, range(first, first + _DATA_PORTS))
    finally:
        process.terminate()
        process.wait()
