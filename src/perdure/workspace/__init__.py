"""The folder of a task's files, and the journal: what changed is taken in (`capture`), and put back by a rollback.

Called by the engine, which decides when. All access goes through descriptors from the workspace's own folder down, so
that no link inside it leads outside.
"""
