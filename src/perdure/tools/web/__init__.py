"""The web as the ready-made agent sees it: fetching, reading and searching. The tools are in `tools/builtin/web.py`.

| module | what is in it |
|---|---|
| `addresses.py` | which addresses are public, pure |
| `fetching.py` | one guarded, bounded request |
| `reading.py` | bytes to text, a page to what it says, pure |
| `searching.py` | the search engines |
"""
