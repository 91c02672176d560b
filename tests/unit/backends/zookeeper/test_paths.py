"""Names in the tree are injective, numbers are compared around the end of their range, and others' nodes are seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiodlock._core.line import LineId, Ticket, TicketId
from aiodlock.backends.zookeeper.address import Address
from aiodlock.backends.zookeeper.paths import Node, in_order, line_of, parse, path_of, prefix_of
from aiodlock.backends.zookeeper.record import Record
from aiodlock.errors import ConfigurationError
from tests.acceptance import acceptance

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60) | st.sampled_from([".", ".."])
lines = st.builds(LineId, st.sampled_from(["lock", "rwlock", "semaphore"]), texts)
LAST, FIRST = (1 << 31) - 1, -(1 << 31)


@given(lines)
def test_every_path_reads_back_as_its_line(line: LineId) -> None:
    _, _root, kind, key = path_of("/root", line).split("/")
    assert line_of(kind, key) == line
    assert key not in {".", "..", ""}


@given(texts, st.integers(1, 1 << 30), st.integers(FIRST, LAST))
def test_every_name_reads_back_as_its_ticket(id_: str, weight: int, number: int) -> None:
    name = prefix_of(Ticket.of(LineId("rwlock", "k"), TicketId(id_), size=1 << 30), weight) + f"{number:010d}"
    assert parse(name, size=1 << 30) == Node(name, TicketId(id_), weight, number)


@acceptance(58)
@given(st.integers(FIRST, LAST), st.permutations(range(20)))
def test_a_line_is_in_order_also_over_that_end(first: int, order: list[int]) -> None:
    def name(position: int) -> str:
        number = (first + position + (1 << 31)) % (1 << 32) - (1 << 31)
        return f"t{position}+1__lock__{number:010d}"

    nodes = in_order(map(name, order), size=1)
    assert [node.id for node in nodes] == [f"t{position}" for position in range(20)]


def test_others_nodes_are_full_weights_or_readers() -> None:
    lock, reader = "5d0e__lock__0000000003", "5d0e__rlock__0000000004"
    assert [node.weight for node in in_order([reader, lock], size=8)] == [8, 1]
    assert parse("somebody's", size=1) is None


def test_others_data_is_their_name() -> None:
    assert Record.decode(b"vm-3").owner == "vm-3"
    assert Record.decode(b'{"unknown":1}').owner == '{"unknown":1}'
    record = Record(owner="秒", key="k", ttl=5.0, session=10.0, asks=2, asked="why")
    assert Record.decode(record.encode()) == record
    assert record.life == 5.0


def test_a_url_names_servers_root_and_user() -> None:
    address = Address.from_url("zk://user:p%40ss@b,a:2182,[::1]:1/top/locks")
    assert str(address) == "zk://[::1]:1,a:2182,b:2181/top/locks"
    assert address.credentials == "user:p@ss"
    assert "p@ss" not in repr(address)
    assert Address.from_url("zk://h").root == Address.from_url("zk://h/").root == "/aiodlock"


@pytest.mark.parametrize("url", ["zk://", "zk://h:99999", "zk://a b", "zk://user@h", "zk://h/a//b", "zk://h/../x"])
def test_a_url_that_cannot_be_used_is_told(url: str) -> None:
    with pytest.raises(ConfigurationError, match="give zk://"):
        Address.from_url(url)
