"""Queries: what can be learned from a store without changing it. Called by the CLI and by whoever builds another face.

`listing` (all tasks), `showing` (one task), `history` (its journal as JSON lines), `verifying` (is it whole?).
They return values; none of them prints.
"""
