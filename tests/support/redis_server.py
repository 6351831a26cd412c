"""Fixture: a Redis server of the test's own, which can be stopped, killed and started again with what it holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.servers import ServerProcess
from tests.support.ports import free_port
from tests.support.servers import server_program

PASSWORD = "br0ker-s3cret-4711"


class RedisServer(ServerProcess):
    """Redis on a free port of 127.0.0.1, which writes all that it holds to its own folder at once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._port = free_port()
        self.start()

    def start(self) -> None:
        """Start it, or start it again at the same port with what it held."""
        options = {
            "requirepass": PASSWORD,
            "bind": "127.0.0.1",
            "port": str(self._port),
            "dir": str(self._folder),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        configuration = self._folder / "redis.conf"
        configuration.write_text("".join(f'{name} "{value}"\n' for name, value in options.items()))
        command = [server_program("redis-server"), str(configuration)]
        super().__init__(command, self._port, self._folder / "log")

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@{self.hostname}/0"


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server of the test's own; `stop` kills it, `start` starts it again."""
    with RedisServer(tmp_path / "redis") as server:
        yield server
