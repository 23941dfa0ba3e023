"""RecBench: how much of what faults destroy comes back. Seeded worlds, the real engine, and stand-ins for all else.

Read `truth.py` (what is hidden), `agent.py` (the program), `stage.py` (one run), `arms.py` (what is compared). Started
by `python -m benchmarks.recbench` (`make recbench`); the page it writes is docs/reference/recovery-benchmark.md.
"""
