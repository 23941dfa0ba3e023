"""Replay: a task's program is run again, and everything it is told comes from the journal.

Not how a task goes on (that is the engine itself, which this uses as it is). Nothing is written, no tool is called, no
lease is taken. The modules, in the order of the work: `record` reads a journal into memory, `playing` runs the program
on it lease by lease, in the time of `virtual`; `following` holds each thing the program does against the record and
says who may go on next; `feeding` is what the program holds instead of a task; `comparing` says what is different;
`rejudging` asks today's recovery about recorded failures. Called by `operations`.
"""
