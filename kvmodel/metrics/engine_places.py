"""Which engine of a server a series belongs to, told by its labels: data-parallel ranks, replicas, models."""

from __future__ import annotations

from kvmodel.errors import CaseError
from kvmodel.metrics.exposition import Sample
from kvmodel.metrics.metric_names import Meaning
from kvmodel.words import say

# Labels of copies of one scheduler: the largest value counts, not the sum.
RANKS = ("tp_rank", "pp_rank", "moe_ep_rank", "pid")
# Labels that tell engines apart where no gauge shows which ones do.
IDENTITY = ("cluster", "namespace", "job", "instance", "pod", "model_name", "engine", "dp_rank")
NOT_IDENTITY = {
    *RANKS, "priority", "le", "reason", "stage", "sleep_state", "request_type", "kv_cache_block_type", "version",
    "inflight_batcher_specific_metric", "__name__",
}  # fmt: skip
MOST_ENGINES = 2_000

Tags = frozenset[tuple[str, str]]
Reading = tuple[Meaning, Sample]


def places_of(readings: list[Reading]) -> dict[int, tuple[Tags | None, ...]]:
    """The engines that each label set belongs to: one, or all it fits where it is a configuration's, else None: shared.

    Engines are told apart by the labels of the gauges; a series that lacks some of them belongs where the rest fit.
    """
    gauges = {id(sample.labels): sample.labels for meaning, sample in readings if meaning.kind == "gauge"}
    labels = {id(sample.labels): sample.labels for _, sample in readings}
    if gauges:
        keys = {key for label_set in gauges.values() for key in label_set} - NOT_IDENTITY
    else:
        keys = {key for label_set in labels.values() for key in label_set if key in IDENTITY}
    tags = {
        number: frozenset((key, value) for key, value in label_set.items() if key in keys)
        for number, label_set in labels.items()
    }
    fitting = fits(set(tags.values()))
    everywhere = {id(sample.labels) for meaning, sample in readings if meaning.kind == "info"}
    return {
        number: fitting[tag_set] if len(fitting[tag_set]) == 1 or number in everywhere else (None,)
        for number, tag_set in tags.items()
    }


def fits(tags: set[Tags]) -> dict[Tags, tuple[Tags, ...]]:
    """For each set of tags the largest ones that hold it, itself included. Raises CaseError for too many."""
    by_keys: dict[frozenset[str], list[Tags]] = {}
    for tag_set in tags:
        by_keys.setdefault(frozenset(key for key, _ in tag_set), []).append(tag_set)
    by_tags: dict[Tags, tuple[Tags, ...]] = {}
    largest: list[Tags] = []
    for keys, group in sorted(by_keys.items(), key=lambda item: -len(item[0])):
        holders: dict[Tags, list[Tags]] = {}
        for whole in largest:
            holders.setdefault(frozenset(tag for tag in whole if tag[0] in keys), []).append(whole)
        for tag_set in group:
            by_tags[tag_set] = tuple(holders.get(tag_set, (tag_set,)))
        largest += [tag_set for tag_set in group if tag_set not in holders]
        if len(largest) > MOST_ENGINES:
            raise CaseError(say("SCRAPE: more than {most:,} engines; allowed: fewer at a time", most=MOST_ENGINES))
    return by_tags
