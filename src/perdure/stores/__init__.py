"""Where journals live: one module or package per store, each a `ports.Store`; `opening.py` turns a URL into one."""
