"""Redis as a backend: verbs become script calls, and their futures are the wire's own."""

from __future__ import annotations

import asyncio
import fnmatch
import secrets
from collections.abc import Awaitable, Sequence
from itertools import batched
from typing import Any, TypeVar

from aiodlock._core.line import Answer, LineId, Reconnected, Row, Ticket, TicketId, tombstone_life
from aiodlock.backends.base import Capabilities, OnCall
