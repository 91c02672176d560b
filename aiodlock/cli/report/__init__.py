"""A sale as one page: its table and its charts, with nothing to load from elsewhere."""

from aiodlock.cli.report.page import Page

__all__ = ["Page"]
