"""The server that starts whole processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from command_server import Server, running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("logs")) as server:
        yield server
