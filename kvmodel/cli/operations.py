"""The commands for running servers: diagnose, rules, dashboard. Files, standard input and Prometheus are read here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvmodel.diagnosis import from_scrapes, grafana, prometheus_rules, promql
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError, unusable
from kvmodel.metrics import metric_names
from kvmodel.metrics.exposition import LONGEST_TEXT

Inputs = Mapping[str, Any]


def read_file(path: str, what: str) -> bytes:
    """The bytes of a file, or of standard input for "-". Raises CaseError where it cannot be read."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise OSError("standard input is closed")
            return sys.stdin.buffer.read(LONGEST_TEXT + 1)
        with Path(path).open("rb") as file:
            return file.read(LONGEST_TEXT + 1)
    except (OSError, ValueError) as error:
        raise unusable(what, path, error) from None


def server_facts(inputs: Inputs) -> ServerFacts:
    """What the reader adds to the metrics. Raises CatalogError for an unknown id."""
    from kvmodel import catalog

    fields = {
        "tp": inputs["tp"],
        "max_num_seqs": inputs["max_num_seqs"],
        "max_num_batched_tokens": inputs["max_num_batched_tokens"],
        "timing": inputs["timing"],
    }
    if inputs["model"] is not None:
        fields["model"] = catalog.id_of("model", inputs["model"])
    if inputs["gpu"] is not None:
        fields["gpu"] = catalog.id_of("gpu", inputs["gpu"])
    return ServerFacts(fields, inputs["engine_version"], inputs["gpu_hour"])


def diagnose(inputs: Inputs) -> dict[str, Any]:
    """The answer of `diagnose`: one scrape, two, or a Prometheus. Raises CaseError."""
    require_one_source(inputs)
    if inputs["prometheus"] is not None:
        from kvmodel.diagnosis import from_prometheus

        return from_prometheus.diagnose(
            inputs["prometheus"], inputs["window"], match=inputs["match"], facts=server_facts(inputs)
        )
    first = read_file(inputs["scrape"], "SCRAPE")
    second = None if inputs["scrape2"] is None else read_file(inputs["scrape2"], "SCRAPE2")
    return from_scrapes.diagnose(first, second, seconds=inputs["seconds"], facts=server_facts(inputs))


def require_one_source(inputs: Inputs) -> None:
    """Raises CaseError unless there is either a scrape or a Prometheus."""
    if inputs["prometheus"] is None and inputs["scrape"] is None:
        raise CaseError("SCRAPE: none given; allowed: a file, - for standard input, or --prometheus with an address")
    if inputs["prometheus"] is not None and inputs["scrape"] is not None:
        raise CaseError("SCRAPE: given with --prometheus; allowed: one of them")


def detected_names(inputs: Inputs) -> tuple[str, dict[str, str]]:
    """The engine and its names: of a scrape, of a Prometheus, or an engine's newest where neither is given."""
    if inputs["scrape"] is None and inputs["prometheus"] is None:
        product = inputs["product"] or "vllm"
        return product, promql.newest_names(product)
    if inputs["product"] is not None:
        raise CaseError("product: given beside a scrape or a Prometheus, whose names count; allowed: one of them")
    if inputs["scrape"] is not None and inputs["prometheus"] is not None:
        raise CaseError("SCRAPE: given with --prometheus; allowed: one of them")
    if inputs["prometheus"] is not None:
        from kvmodel.diagnosis import from_prometheus

        answer = from_prometheus.diagnose(inputs["prometheus"], inputs["window"], match=inputs["match"])
    else:
        answer = from_scrapes.diagnose(read_file(inputs["scrape"], "SCRAPE"))
    if "names" not in answer:
        raise CaseError(f"SCRAPE: {answer['reason']}; allowed: a scrape of an engine")
    return answer["engine"], answer["names"]


def rules(inputs: Inputs) -> dict[str, Any]:
    """The answer of `rules`: a rule file, and the same questions as PromQL. Raises CaseError."""
    product, names = detected_names(inputs)
    if not prometheus_rules.alerts(names, product):
        raise CaseError(f"SCRAPE: no series to alert on, only {', '.join(names) or 'none'}; allowed: a whole scrape")
    text = prometheus_rules.rules_yaml(names, product)
    answer = {"engine": product, "names": names, "promql": promql.promql(names, product), "rules": text}
    return answer | output_answer(inputs["output"], text)


def dashboard(inputs: Inputs) -> dict[str, Any]:
    """The answer of `dashboard`: what Grafana imports. Raises CaseError."""
    import json

    product, names = detected_names(inputs)
    board = grafana.dashboard(names, product)
    if not board["panels"]:
        label = metric_names.label(product)
        raise CaseError(f"SCRAPE: no series of {label} to draw; allowed: a whole scrape")
    return board if inputs["output"] is None else output_answer(inputs["output"], json.dumps(board, indent=2) + "\n")


def output_answer(output: str | None, text: str) -> dict[str, str]:
    """Where a text was written, if anywhere. Raises CaseError where it cannot be."""
    if output is None:
        return {}
    from kvmodel import files

    files.write(output, text)
    return {"output": output}
