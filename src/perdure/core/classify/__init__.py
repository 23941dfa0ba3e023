"""The classifier: from the evidence of an error to the class of failure that recovery works with. Pure, by tables.

| module | what is in it |
|---|---|
| `evidence.py` | `Evidence` and `Verdict`, what goes in and what comes out |
| `reading.py` | codes, texts and delays out of bodies, however they are wrapped |
| `rows.py`, `elsewhere.py` | the tables, for HTTP and for everything else |
| `words.py` | the patterns that the tables use |
| `waits.py` | how long to wait, and when a quota comes back |
| `replies.py` | answers with status 200 that are none |
| `deciding.py` | `classify`, `classify_reply` |

It knows no exceptions: `tools/evidence.py` takes the evidence out of them, and adapters for models hand in their own.
"""

from perdure.core.classify.deciding import classify, classify_reply
from perdure.core.classify.evidence import Evidence, EvidenceKind, Verdict

__all__ = ["Evidence", "EvidenceKind", "Verdict", "classify", "classify_reply"]
