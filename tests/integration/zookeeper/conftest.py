"""Servers for the tests of this folder, and a fresh key per test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import ZooKeeperEnsemble, ZooKeeperServer, require

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[ZooKeeperServer]:
    require(ZooKeeperServer)
    with ZooKeeperServer() as running:
        yield running


@pytest.fixture(scope="session")
def _one_ensemble() -> Iterator[ZooKeeperEnsemble]:
    require(ZooKeeperServer)
    with ZooKeeperEnsemble() as running:
        yield running


@pytest.fixture
def severable() -> Iterator[ZooKeeperEnsemble]:
    """Three nodes that can be cut off; to crash one, take others: a proxy accepts connections to a dead node."""
    require(ZooKeeperServer)
    with ZooKeeperEnsemble(severable=True) as running:
        yield running


@pytest.fixture
def slow() -> Iterator[ZooKeeperEnsemble]:
    """The same, with a tick of a second: there is time to cut one off before it tells the leader whom it has heard."""
    require(ZooKeeperServer)
    with ZooKeeperEnsemble(severable=True, tick=1.0) as running:
        yield running


@pytest.fixture
def ensemble(_one_ensemble: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    """Three nodes, all of them up and in touch before the test and after it."""
    yield _one_ensemble
    for node in _one_ensemble.nodes:
        node.resume()
        if not node.running:
            node.start()
    _one_ensemble.wait_until_whole()


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as running:
        yield running


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"{request.function.__name__}-{next(_numbers)}"
