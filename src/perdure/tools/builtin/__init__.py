"""The tools that the ready-made agent is given, by subject. `catalogue.py` names them all; nothing else knows them."""
