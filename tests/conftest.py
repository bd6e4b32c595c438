"""Fixtures that several files share, and how examples are generated."""

from hypothesis import HealthCheck, settings
from standins import cluster  # noqa: F401

# The same examples on every run, however slow the machine: chance and time decide no test.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")
