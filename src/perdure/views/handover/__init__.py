"""The handover: a task packed for a person who knows nothing of it, as values and as a page of Markdown.

`handover` computes it from the store, for a task of any status; `to_markdown` writes it down. Both are bounded,
whatever the task's length: what is cut or left out says where it stands whole. It shows nothing that `log` does not.
Called by `perdure show --handover`.
"""

from perdure.views.handover.gathering import handover
from perdure.views.handover.package import Handover
from perdure.views.handover.page import to_markdown

__all__ = ["Handover", "handover", "to_markdown"]
