"""What all tests share: how Hypothesis draws.

There is no plug-in for coroutines: a test calls `asyncio.run` itself.
"""

from hypothesis import settings

# The same examples on every machine and every run, and no time limit: what is red is red for everybody.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
# New examples each time, and many more: pytest --hypothesis-profile deep
settings.register_profile("deep", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile("ci")
