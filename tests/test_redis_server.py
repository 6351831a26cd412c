"""The Redis server of the tests: what it holds outlives it."""

from __future__ import annotations

import pytest
import redis

from tests.support.redis_server import RedisServer


@pytest.mark.servers
def test_what_a_killed_server_held_is_there_when_it_is_started_again(redis_server: RedisServer) -> None:
    with redis.from_url(redis_server.url) as client:
        client.set("batch", "17")
    redis_server.stop()
    redis_server.start()
    with redis.from_url(redis_server.url) as client:
        assert client.get("batch") == b"17"
