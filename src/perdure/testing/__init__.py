"""For those who test what they build on perdure, or a store of their own. Public; imported by tests only."""
