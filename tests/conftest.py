"""Fixtures that several files share."""

from standins import cluster  # noqa: F401
