"""What people bring along from AutoGPT: `.env`, `ai_settings.yaml`, permissions, and agents that are to go on here.

Not the agent itself: this package reads files and gives values. `table.py` is the one list of what means what.
"""

from __future__ import annotations

from perdure.agent.autogpt.dotenv import read_keys
from perdure.agent.autogpt.gathering import Inherited, inherit, inherit_agent

__all__ = ["Inherited", "inherit", "inherit_agent", "read_keys"]
