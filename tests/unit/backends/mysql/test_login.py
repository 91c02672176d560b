"""What the driver says while it logs in, as an error with the next step."""

from __future__ import annotations

import asyncmy.auth
import pytest

from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import _not_opened
from aiodlock.errors import BackendDataError, BackendUnavailableError, MissingDependencyError

ADDRESS = Address.from_url("mysql://app:secret@127.0.0.1/shop")


def test_mysqls_usual_login_without_cryptography_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's own error, from the function that needs the package."""
    monkeypatch.setattr(asyncmy.auth, "_have_cryptography", False)
    with pytest.raises(RuntimeError) as raised:
        asyncmy.auth.sha2_rsa_encrypt(b"secret", b"salt", b"key")
    error = _not_opened(ADDRESS, raised.value)
    assert isinstance(error, MissingDependencyError)
    assert "pip install 'aiodlock[mysql]'" in str(error)
    assert "secret" not in str(error)


def test_a_wrong_password_is_not_tried_for_ever() -> None:
    assert isinstance(_not_opened(ADDRESS, asyncmy.errors.OperationalError(1045, "denied")), BackendDataError)


def test_a_server_that_is_away_may_come_back() -> None:
    assert isinstance(_not_opened(ADDRESS, ConnectionRefusedError(111, "refused")), BackendUnavailableError)
