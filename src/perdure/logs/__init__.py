"""Journals as lines of JSON: what a line holds, and the files that such lines are kept in beside the store.

`walking` reads a journal frame by frame, `lines` makes lines of it, `plain` makes plain JSON of stored values. `scroll`
is the set of files of one task, `copying` brings it up to the journal, `reading` gives its lines back. All of it is
derived: the store is the truth, and nothing here is read to go on with a task. Called by engine (the live copy) and
views (`perdure log`).
"""
