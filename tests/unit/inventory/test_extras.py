"""Each part of the orders' way needs its own driver only, and names the extra that is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules["{driver}"] = None  # what is not installed
try:
    from {module} import {name}
except ImportError as error:
    print(type(error).__name__, getattr(error, "extra", error))
else:
    print("there")
"""
ORDERS = "aiodlock.inventory.orders"


def imported(name: str, *, without: str, module: str = ORDERS) -> str:
    program = PROGRAM.format(driver=without, module=module, name=name)
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["Access", "Message", "OutboxRelay", "Publisher", "Reconciliation", "make_topics"])
def test_who_needs_no_database_needs_no_driver_of_one(name: str) -> None:
    assert imported(name, without="asyncmy") == "there"


def test_a_sink_needs_no_driver_of_a_database() -> None:
    assert imported("KafkaSink", without="asyncmy", module="aiodlock.sinks.kafka") == "there"


@pytest.mark.parametrize("name", ["OrderWriter", "OutboxRelay", "Publisher", "Rows", "make_topics"])
def test_a_missing_driver_of_kafka_is_named(name: str) -> None:
    assert imported(name, without="aiokafka") == "MissingDependencyError kafka"


def test_a_sink_names_a_missing_driver() -> None:
    found = imported("KafkaSink", without="aiokafka", module="aiodlock.sinks.kafka")
    assert found == "MissingDependencyError kafka"


def test_a_missing_driver_of_the_database_is_named() -> None:
    assert imported("OrderWriter", without="asyncmy") == "MissingDependencyError mysql"


def test_all_that_is_promised_is_there() -> None:
    """And nothing else."""
    from aiodlock.inventory import orders

    assert {name: bool(getattr(orders, name)) for name in orders.__all__} == dict.fromkeys(orders.__all__, True)
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        orders.Consumer  # noqa: B018
