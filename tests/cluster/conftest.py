"""Hooks and fixtures of the cluster tests: those of the harness."""

from harness.plugin import *  # noqa: F401,F403 - pytest takes hooks and fixtures by their names here
