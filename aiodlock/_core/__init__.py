"""The engine: lines, places, cohorts, holds. No driver is imported here."""
