"""The claims ledger as Markdown: `python -m docs.claims_page > docs/claims.md`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kvmodel.claims.ledger import SPEAKERS, as_row, ledger

HEADINGS = {"article": "The article", "vllm-paper": "The vLLM paper (Kwon et al. 2023)"}
TITLE = """# Claims

What the article and the vLLM paper say, and what this model finds. Every number is computed by `kvmodel`; this page is
written by `python -m docs.claims_page > docs/claims.md`, and a test fails where it is stale. Links open the running
explorer at the point in question.
"""


def markdown() -> str:
    """The whole page."""
    claims = ledger()
    parts = [TITLE]
    for speaker in SPEAKERS:
        parts.append(f"## {HEADINGS[speaker]}\n")
        parts += [section(as_row(entry)) for entry in claims if entry.by == speaker]
    return "\n".join(parts)


def section(entry: Mapping[str, Any]) -> str:
    """One claim: a heading with its id and verdict, then what is said, our number, condition, link and sources."""
    sources = "; ".join(
        f"[{cited['text']}]({cited['url']})" if cited["url"] else cited["text"] for cited in entry["sources"]
    )
    return "\n".join([
        f"### {entry['id']}: {entry['verdict']}\n",
        f"> {entry['says']}\n",
        f"{entry['ours']}\n",
        f"Condition: {entry['condition']}\n",
        f"Open: `{entry['link']}`. Sources: {sources}.\n",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(markdown())
