"""Models behind one port (`ports.Model`): those of providers through pydantic-ai, one on this machine. No retries."""
