"""`aiodlock doctor` and `aiodlock mysql init` on a real server, and what the doctor makes of settings."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock.backends.mysql import MySQLBackend, doctor
from aiodlock.cli.main import run
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin

MOST = "GRANT SELECT, INSERT, UPDATE, DELETE"


async def test_a_database_is_set_up_once(
    server: MariaDBServer, admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    """By one who may; then a user with the least rights can lock there."""
    await admin.ask("CREATE DATABASE shop")
    url = server.url.replace(server.database, "shop")
    for expected in ("made", "were there"):
        assert await asyncio.to_thread(run, ["mysql", "init", url]) == 0
        assert expected in capsys.readouterr().out
    await admin.ask("CREATE OR REPLACE USER app@'%'")
    await admin.ask("GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON shop.* TO app@'%'")
    assert await asyncio.to_thread(run, ["doctor", url.replace("root@", "app@")]) == 0
    assert "read, write and call" in capsys.readouterr().out


async def test_what_needs_no_setting_up_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert await asyncio.to_thread(run, ["mysql", "init", "memory://"]) == 2
    assert "needs no setting up" in capsys.readouterr().err


async def test_the_doctor_looks_and_changes_nothing(server: MariaDBServer, admin: Admin) -> None:
    await admin.ask("CREATE DATABASE untouched")
    url = server.url.replace(server.database, "untouched")
    found = {finding.what: finding.level for finding in await MySQLBackend.from_url(url).diagnose()}
    assert found == {
        "version": "ok",
        "rights": "ok",
        "clock": "ok",
        "connections": "ok",
        "durability": "warning",
        "replication": "ok",
        "encryption": "ok",
    }
    assert await admin.ask("SHOW TABLES IN untouched") == []


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (doctor._rights([f"{MOST} ON `shop`.* TO `app`@`%`"], "shop"), "error"),
        (doctor._rights([f"{MOST}, EXECUTE ON `shop`.* TO `app`@`%`"], "shop"), "ok"),
        (doctor._rights([f"{MOST}, EXECUTE ON `other`.* TO `app`@`%`"], "shop"), "error"),
        (doctor._rights([f"{MOST} ON *.* TO `app`", "GRANT EXECUTE ON `my\\_sh%`.* TO `app`"], "my_shop"), "ok"),
        (doctor._rights([f"{MOST}, EXECUTE ON `my\\_shop`.* TO `app`@`%`"], "my-shop"), "error"),
        (doctor._rights(["GRANT `clerk` TO `app`@`%`", "GRANT USAGE ON *.* TO `app`@`%`"], "shop"), "warning"),
        (doctor._rights(["GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION"], "shop"), "ok"),
        (doctor._clock(90.0), "warning"),
        (doctor._connections(151, 145), "warning"),
        (doctor._flushing(1), "ok"),
        (doctor._replication(True, "STATEMENT"), "error"),
        (doctor._replication(True, "ROW"), "ok"),
        (doctor._cipher("", False), "warning"),
        (doctor._cipher("TLS_AES_256_GCM_SHA384", False), "ok"),
    ],
)
def test_what_the_doctor_makes_of_it(finding: doctor.Finding, level: str) -> None:
    assert finding.level == level
    assert finding.advice or level == "ok"
