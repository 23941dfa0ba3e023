"""The tools of the offline agent: what it may do, declared for the runtime.

Thin: each hands plain values to one pure module and its result back. All but the last only read or compute, so they
may run again after a kill; the last replaces a whole file, which may be done again too. Called by the agent loop
through the moves of `policy`.
"""

import errno
import hashlib
import os
from typing import Any

from perdure.agent.offline.grouping import Comparison, compare
from perdure.agent.offline.listing import Listing, find_documents
from perdure.agent.offline.profile import Profile, profile_of
from perdure.agent.offline.reading import Reading, read_text
from perdure.agent.offline.report import HEAD, render
from perdure.tools import tool

REPORT_NAME = "digest.md"


@tool(effect="pure")
def list_documents(folder: str, workspace: str) -> Listing:
    """List what there is to read below `folder`, without what this agent wrote itself."""
    return find_documents(folder, os.path.join(workspace, REPORT_NAME))


@tool(effect="pure", source=True)
def read_document(folder: str, name: str) -> Reading:
    """Read one document. Raises `UnreadableDocument` with a short reason."""
    return read_text(folder, name)


@tool(effect="pure")
def extract_profile(name: str, text: str, encoding: str) -> Profile:
    """Take from a document its terms, its telling sentences and its sketch."""
    return profile_of(name, text, encoding)


@tool(effect="pure")
def compare_documents(documents: dict[str, dict[str, Any]]) -> Comparison:
    """Group the documents that could be read; `documents` maps names to profiles or failures."""
    return compare(_profiles(documents))


@tool(effect="pure")
def compose_digest(
    listing: Listing,
    documents: dict[str, dict[str, Any]],
    comparison: Comparison,
    introduction: dict[str, str] | None = None,
) -> str:
    """Write the digest as text; `introduction` is what a model has written, and which one it was."""
    failures = {name: entry["failed"] for name, entry in documents.items() if "failed" in entry}
    return render(listing, _profiles(documents), failures, comparison, introduction)


@tool(effect="workspace", paths=("{name}",))
def write_report(workspace: str, name: str, text: str) -> dict[str, Any]:
    """Replace the file `name` of the workspace by `text`, durably: a kill leaves the old one whole or the new one.

    Only a digest is replaced: raises FileExistsError where the file begins with anything else.
    """
    content = text.encode("utf-8")
    os.makedirs(workspace, exist_ok=True)
    _refuse_other_file(os.path.join(workspace, name))
    # Always the same name, so that what a kill leaves behind is overwritten by the next try.
    temporary = os.path.join(workspace, f".{name}.part")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, os.path.join(workspace, name))
    _sync_folder(workspace)
    return {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _profiles(documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: entry for name, entry in documents.items() if "failed" not in entry}


def _refuse_other_file(path: str) -> None:
    """Raise FileExistsError where something else than a digest of ours is at `path`."""
    try:
        with open(path, "rb") as file:
            head = file.read(len(HEAD))
    except FileNotFoundError:
        return
    if head != HEAD.encode():
        raise FileExistsError(errno.EEXIST, "there is a file that this agent did not write; move it away", path)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
