"""The root of the tree of errors. See the package for the whole of it."""

from __future__ import annotations


class PerdureError(Exception):
    """Base of all errors of this library."""
