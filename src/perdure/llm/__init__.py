"""Models behind the port `ports.Model`: providers over the network, one on this machine.

Turns the plain values of `model/chat.py` into what a provider wants and back. Decides nothing about a task, keeps
nothing, never sends a request twice: retries belong to the engine. Called by `agent/` and by whoever asks a model.
"""
