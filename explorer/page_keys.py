"""What is said of a link that holds more than this version knows."""

from __future__ import annotations

from collections.abc import Mapping

from explorer import prose
from kvmodel.errors import LONGEST_ECHO
from kvmodel.inputs.addresses import FORMAT, FORMAT_KEY
from kvmodel.inputs.case import DEFAULTS

# What pages keep in the URL beside the inputs (the keys of widgets bound to it), and what Streamlit reads there.
PAGE_KEYS = (
    "view",
    "sources",
    "parts_blocks",
    "compare",
    "kinds",
    "verdict",
    "by",
    "claim",
    "chart",
    "only",
    "why",
    "term",
    "step",
    "answers",
    "events",
    "finished",
    "wait_s",
    "max_model_len",
    "offload_gib",
    "pp",
    "dcp",
    "draft_tokens",
    "swap_gib",
    "unchunked",
    "plain",
    "sample",
    "rows_kind",
    "rows_gpu",
    "rows_model",
    "rows_engine",
    "timeline_shown",
    "workload",
    "requests_per_s",
    "requests",
    "seed",
    "burstiness",
    "clients",
    "scheduler",
    "beside",
    "pool_percent",
    "num_blocks",
    "utilization",
    "max_num_seqs",
    "watermark",
    "host_gib",
    "prefix_caching",
    "slo_ttft_s",
    "slo_tpot_ms",
    "remedy_for",
    "t",
)
FRAME_KEYS = ("embed", "embed_options", "lang")
MOST_NAMED = 3  # unknown keys that a notice repeats


def notices(query: Mapping[str, str]) -> list[str]:
    """A sentence for each thing in a query that this version does not know; empty where it knows all."""
    sentences = []
    version = query.get(FORMAT_KEY, FORMAT)
    if version != FORMAT:
        sentences.append(prose.text("share", "other_format", {"given": version[:LONGEST_ECHO], "known": FORMAT}))
    known_keys = {*DEFAULTS, *PAGE_KEYS, *FRAME_KEYS, FORMAT_KEY}
    unknown = [key[:LONGEST_ECHO] for key in query if key not in known_keys]
    if unknown:
        names = ", ".join(unknown[:MOST_NAMED]) + (", …" if len(unknown) > MOST_NAMED else "")
        sentences.append(prose.text("share", "unknown_keys", {"keys": names}))
    return sentences
