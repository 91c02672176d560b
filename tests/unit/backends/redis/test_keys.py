"""Names in Redis are injective, readable where they can be, and never a pattern or another slot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiodlock._core.line import LineId
from aiodlock.backends.redis.keys import _LONGEST, Keys
from aiodlock.errors import BackendDataError, ConfigurationError

KEYS = Keys("aiodlock")

nasty = st.text(st.sampled_from("ab{}%#*?[]\\: \n\0é秒"), min_size=1, max_size=90)
texts = nasty | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=90)
lines = st.builds(LineId, st.sampled_from(["lock", "rwlock", "semaphore", "x{y}#"]), texts)


def clear(line: LineId) -> bytes:
    """Return the name in clear: the key itself unless it is hashed."""
    name = KEYS.name(line)
    return name.clear or name.key


@given(lines, lines)
def test_two_lines_never_share_a_key(one: LineId, two: LineId) -> None:
    assert (KEYS.name(one).key == KEYS.name(two).key) == (one == two)


@given(lines)
def test_every_name_reads_back_as_its_line(line: LineId) -> None:
    assert KEYS.parse(clear(line)) == line


@given(lines)
def test_the_tag_is_the_whole_encoded_key(line: LineId) -> None:
    """Exactly one pair of braces, not empty, so every key of a line falls into one slot; nothing that is a pattern."""
    key = KEYS.name(line).key
    tag = key[key.index(b"{") + 1 : key.index(b"}")]
    assert tag
    assert (key.count(b"{"), key.count(b"}")) == (1, 1)
    assert not set(key) & set(b"*?[]\\ \r\n\0")
    assert len(tag) <= _LONGEST + 1


@given(lines)
def test_only_hashed_keys_are_marked(line: LineId) -> None:
    """No plain key can equal a hashed one: the mark is encoded wherever a user writes it."""
    name = KEYS.name(line)
    assert (b"#" in name.key) == bool(name.clear)


def test_plain_keys_stay_readable() -> None:
    assert KEYS.name(LineId("lock", "order:42/秒杀")).key == "aiodlock:{order:42/秒杀}:lock".encode()


def test_a_plain_key_that_spells_a_hash_is_another_key() -> None:
    long = LineId("lock", "k" * 100)
    spelled = KEYS.name(long).key.split(b"{")[1].split(b"}")[0].decode()
    assert KEYS.name(LineId("lock", spelled)).key != KEYS.name(long).key


@pytest.mark.parametrize("encode", [lambda raw: raw, lambda raw: raw.replace(b"{", b"%7B")])
def test_a_careless_encoding_is_found(encode: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twins: without encoding, and without encoding the sign of encoding."""
    monkeypatch.setattr("aiodlock.backends.redis.keys._encode", encode)
    with pytest.raises((AssertionError, BackendDataError)):
        test_every_name_reads_back_as_its_line.hypothesis.inner_test(LineId("lock", "%7B{"))


@pytest.mark.parametrize(
    "key",
    [
        *(b"other:{a}:lock", b"aiodlock:a:lock", b"aiodlock:{#ff}:lock", b"aiodlock:{}:lock"),
        *(b"aiodlock:{\xff}:lock", b"aiodlock:{%FF}:lock", b"aiodlock:{a}:\xff"),
    ],
)
def test_foreign_keys_are_told_apart(key: bytes) -> None:
    with pytest.raises(BackendDataError, match="none of ours"):
        KEYS.parse(key)


@pytest.mark.parametrize("prefix", ["", "a b", "a*", "{a}", "x" * 65])
def test_a_prefix_is_checked(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="prefix"):
        Keys(prefix)
