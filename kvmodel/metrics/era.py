"""Which engine, and which of its versions, a scrape is from; and which flags all those versions have.

Each name narrows the range: there since one release, gone in another (data/releases.toml and data/eras.toml).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvmodel import catalog
from kvmodel.catalog import releases
from kvmodel.metrics import metric_names
from kvmodel.metrics.exposition import Scrape
from kvmodel.words import say

CONFIG = "vllm:cache_config_info"
EXACT = ".1"  # makes of a version the first one that is not it


@dataclass(frozen=True)
class Era:
    """`name` is "V0" or "V1" for vLLM. The version is at least `since` and below `gone`; None where nothing says so."""

    product: str
    name: str | None = None
    since: str | None = None
    gone: str | None = None
    mixed: bool = False  # names of versions that no single release has

    @property
    def versions(self) -> str:
        """The range in words."""
        if self.mixed:
            return say("several versions at once")
        if self.since is None and self.gone is None:
            return say("version not known")
        if self.gone == f"{self.since}{EXACT}":
            return f"{self.since}"
        start = "" if self.since is None else say("{since} or newer", since=self.since)
        end = "" if self.gone is None else say("before {gone}", gone=self.gone)
        return ", ".join(filter(None, (start, end)))


def detected(product: str, scrape: Scrape) -> Era:
    """The era of a scrape. Versions are read for vLLM alone: the other engines' names are known of one release each."""
    if product != "vllm":
        return Era(product)
    bounds = list(marks(scrape))
    eras = {str(row["era"]) for row in bounds if "era" in row}
    name = eras.pop() if len(eras) == 1 else None
    if name is not None:
        bounds.append(catalog.table("eras")["era"][name])
    since = max((row["since"] for row in bounds if row.get("since")), key=releases.release, default=None)
    gone = min((row["gone"] for row in bounds if row.get("gone")), key=releases.release, default=None)
    crossed = since is not None and gone is not None and releases.release(since) >= releases.release(gone)
    if crossed or len(eras) > 1:
        return Era(product, name, mixed=True)
    return Era(product, name, since, gone)


def given(product: str, version: str, generation: str | None = None) -> Era:
    """The era of a version that the reader knows; `generation` is what a scrape shows of 0.8 to 0.10, which had both.

    Raises CaseError where it is no version.
    """
    numbers = releases.release(version)
    text = ".".join(str(number) for number in (*numbers, 0, 0)[: max(3, len(numbers))])
    old = product == "vllm" and numbers < releases.release("0.8.0")
    new = product == "vllm" and numbers >= releases.release("0.11.0")
    return Era(product, "V0" if old else "V1" if new else generation, text, text + EXACT)


def marks(scrape: Scrape) -> Iterator[dict[str, str]]:
    """The rows that the scrape's names and labels bear out."""
    names = {engine_name[1] for name in scrape.sampled if (engine_name := metric_names.own_name(name)) is not None}
    names |= {name.rsplit("_", 1)[0] for name in names if name.endswith(("_bucket", "_sum", "_count"))}
    for entry in releases.entries():
        if entry.kind == "metric" and entry.name in names:
            yield {key: value for key, value in (("since", entry.since), ("gone", entry.gone)) if value}
    configs = [sample.labels for sample in scrape.samples if own_spelling(sample.name) == CONFIG]
    labels = {key for sample in scrape.samples if metric_names.meanings(sample.name) for key in sample.labels}
    for row in catalog.table("eras")["evidence"]:
        if (
            row.get("series") in names
            or row.get("label") in labels
            or (configs and all(row.get("setting") in config for config in configs))
            or ("no_setting" in row and configs and lacking(row, configs))
        ):
            yield row


def own_spelling(name: str) -> str:
    """The engine's own spelling of a name."""
    engine_name = metric_names.own_name(name)
    return engine_name[1] if engine_name else name


def lacking(row: dict[str, str], configs: Iterable[dict[str, str]]) -> bool:
    """Whether none of the configurations has the label, nor the one that stood for it before."""
    return all(row["no_setting"] not in config and row.get("unless") not in config for config in configs)


@dataclass(frozen=True)
class Standing:
    """A flag that a version may have: `needs` is the release it came with where earlier ones are possible, `as_of` the
    release in which it was read where the version is not known at all; both empty where all of the era have it."""

    needs: str = ""
    as_of: str = ""


def standing(flag: str, era: Era, known_from: str | None = None) -> Standing | None:
    """How a flag stands in the versions of an era, None where it is gone in some or has come after all of them.

    `known_from` stands in where the releases table does not say since when a flag is there.
    """
    engine = "tensorrt-llm" if era.product == "triton" else era.product
    rows = [row for row in releases.entries() if (row.kind, row.engine, row.name) == ("flag", engine, flag)]
    exact = rows[0].since if rows else None
    since = exact or known_from or (rows[0].seen if rows else None)
    gone = rows[-1].gone if rows else None
    if since is None:
        return None
    if gone is not None and (era.gone is None or era.mixed or releases.release(era.gone) > releases.release(gone)):
        return None
    if at_least(era.since, since):
        return Standing()
    if era.gone is not None and releases.release(era.gone) <= releases.release(since):
        return None
    return Standing(as_of=since) if exact is None and era.since is None else Standing(needs=since)


def at_least(version: str | None, least: str) -> bool:
    """Whether a version that may not be known is at least another."""
    return version is not None and releases.release(version) >= releases.release(least)
