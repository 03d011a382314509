"""Each limit on what is given is reached from both sides: so much is taken, one more is refused in one sentence.

The limit is set low, so that a test needs no large text; that each has its own name and is as large as it should be is
for the tests of its module.
"""

import gzip
import io
from collections.abc import Callable
from types import ModuleType

import pytest

from kvmodel import files
from kvmodel.catalog import custom_model
from kvmodel.errors import CaseError, CatalogError
from kvmodel.hf import config_file
from kvmodel.metrics import engine_places, exposition, metric_names, prometheus_http, running_lines, trtllm_json
from kvmodel.sweeps import grid
from tests.helpers.scrapes import vllm

LINE = (
    "INFO 11-30 10:{minute:02}:00 [loggers.py:259] Engine {engine:03}: Avg prompt throughput: 100.0 tokens/s, Avg "
    "generation throughput: 50.0 tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 5.0%, Prefix "
    "cache hit rate: 45.0%\n"
)


def scraped(text: bytes | str) -> object:
    return exposition.read_scrape(text, metric_names.is_wanted)


def of_lines(number: int) -> object:
    return running_lines.read("".join(LINE.format(minute=at, engine=0, running=3) for at in range(number)))


def of_engines(number: int) -> object:
    places = [(at, engine) for at in (0, 1) for engine in range(number)]
    return running_lines.read("".join(LINE.format(minute=at, engine=one, running=3 + one) for at, one in places))


def of_series(number: int) -> object:
    return scraped("".join(f'vllm:num_requests_running{{engine="{at}"}} 1\n' for at in range(number)))


def of_iterations(number: int) -> object:
    return trtllm_json.page_of('{"iter": 1, "kvCacheStats": {}}\n' * number, "SCRAPE")


def of_ranks(number: int) -> object:
    return trtllm_json.page_of(
        "".join(f'{{"iter": 1, "attentionDpRank": {at}, "kvCacheStats": {{}}}}\n' for at in range(number)), "SCRAPE"
    )


def of_rows(text: str) -> object:
    return list(files.table_rows(io.StringIO(text), 100))


def of_bytes(number: int) -> object:
    return config_file.read_text(b'{"model_type": "llama"}'.ljust(number), assume_defaults=True)


LIMITS: dict[str, tuple[ModuleType, str, int, Callable[[int], object]]] = {  # a low limit, and what gives so much
    "running lines": (running_lines, "MOST_LINES", 5, of_lines),
    "engines of running lines": (running_lines, "MOST_ENGINES", 3, of_engines),
    "series": (exposition, "MOST_SERIES", 6, of_series),
    "label sets": (exposition, "MOST_LABEL_SETS", 6, of_series),
    "lines of a scrape": (exposition, "MOST_LINES", 9, lambda number: scraped("# x\n" * number)),
    "characters of a scrape": (exposition, "LONGEST_TEXT", 999, lambda number: scraped(vllm()[:900].ljust(number))),
    "unpacked": (exposition, "LONGEST_TEXT", 999, lambda n: scraped(gzip.compress(vllm()[:900].ljust(n).encode()))),
    "gzip members": (exposition, "MOST_MEMBERS", 3, lambda number: scraped(gzip.compress(b"# x\n") * number)),
    "objects of JSON": (trtllm_json, "MOST_OBJECTS", 4, of_iterations),
    "ranks of JSON": (trtllm_json, "MOST_RANKS", 4, of_ranks),
    "engines by tags": (engine_places, "MOST_ENGINES", 4, lambda n: engine_places.fits(
        {frozenset({("engine", str(at))}) for at in range(n)})),
    "seconds of a window": (prometheus_http, "MOST_WINDOW_S", 90, lambda n: prometheus_http.window_s(f"{n}s")),
    "characters of a line": (files, "LONGEST_LINE", 9, lambda number: of_rows("a" * (number - 1) + "\n")),
    "characters of a table": (files, "LARGEST_BYTES", 8, lambda number: of_rows("a\n" * 3 + "b" * (number - 7) + "\n")),
    "bytes of a config": (config_file, "LARGEST_FILE_BYTES", 99, of_bytes),
    "cases of a grid": (grid, "MOST_CASES", 4, lambda number: grid.grid(
        [f"tokens={','.join(str(at + 1) for at in range(number))}"], {}, ["tokens"])),
    "characters of a model": (custom_model, "LONGEST", 99, lambda n: custom_model.from_text(
        f"custom~{'a' * (n - 52)}~l32_d4096_h32_g8_w128_v1000_full32x8x128x128")),
}  # fmt: skip


@pytest.mark.parametrize("what", LIMITS)
def test_so_much_is_taken_and_one_more_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, most, give = LIMITS[what]
    assert isinstance(getattr(module, name), (int, float))
    monkeypatch.setattr(module, name, most)
    assert give(most) is not None
    with pytest.raises((CaseError, CatalogError, OSError)) as refused:
        give(most + 1)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("text", "taken"), [("999ms", False), ("1s", True), ("90d", True), ("90d1s", False)])
def test_a_window_of_prometheus(text: str, taken: bool) -> None:
    try:
        assert (prometheus_http.window_s(text) > 0) == taken
    except CaseError:
        assert not taken
