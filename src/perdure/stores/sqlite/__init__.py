"""The store in one SQLite file (WAL, synchronous=FULL), for one host and any number of its processes.

`database.py` opens, makes and migrates the file; `writer.py` decides when and on which thread a commit is made;
`commits.py` makes it; `rungs` (journal, snapshots, leases, catalogue, blobs, inbox) say the rest of `ports.Store` in
SQL from `queries.sql`; `store.py` puts them together. The schema is `schema.sql`.
"""
