"""A pattern that can match one key alone is known as that key, so that nobody searches for it."""

from __future__ import annotations

import fnmatch
import glob

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiodlock.backends.base import only_key

texts = st.text("ab*?[]!-\\é", max_size=12)


@given(texts)
def test_every_escaped_key_is_found(key: str) -> None:
    assert only_key(glob.escape(key)) == key


@given(texts, texts)
def test_what_is_found_is_all_that_matches(pattern: str, other: str) -> None:
    """Whatever the pattern is: with an only key it matches that key, and no other."""
    if (key := only_key(pattern)) is not None:
        assert fnmatch.fnmatchcase(key, pattern)
        assert fnmatch.fnmatchcase(other, pattern) == (other == key)


@pytest.mark.parametrize("pattern", ["*", "a*", "a?", "[ab]", "[*?]", "[!*]", "[*", "a[[]*"])
def test_what_may_match_more_is_a_pattern(pattern: str) -> None:
    assert only_key(pattern) is None
