"""The agent that needs no model and no network: it reads a folder and writes a digest of it.

Not a toy: every promise about kills and resumes holds for it as for any agent, so it is the first real job of this
library. Loaded by `agent/loop.py`.

    goals → policy → tools → listing · reading(decoding) · profile(prose, terms, sentences, likeness)
                             · grouping(weights, communities, likeness) · report

`goals` say what may be asked, `policy` what is next, `tools` what may be done; the rest is text analysis in plain
functions of values, without state, clock, randomness or any dependency.
"""
