"""A log longer than is read: its start and its end count, not its middle."""

from kvmodel.inputs.case import Case
from kvmodel.startup_log import log_answer, log_reader
from tests.startup_log import log_texts

PROGRESS = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:10<00:10, 5.0s/it]\n"


def test_the_figures_at_the_end_are_read():
    long_log = PROGRESS * (log_reader.LONGEST_LOG // len(PROGRESS) + 100) + log_texts.PINNED
    whole, short = (log_answer.explain_text(text, Case(), {}) for text in (long_log, log_texts.PINNED))
    assert whole["figures"] == short["figures"]
    assert whole["findings"] == short["findings"]


def test_a_log_at_the_limit_is_read_whole():
    text = "x" * log_reader.LONGEST_LOG
    assert log_reader.both_ends(text) == text
    assert len(log_reader.both_ends(text + "y")) <= log_reader.LONGEST_LOG
    assert log_reader.both_ends(text + "y").endswith("y")


def test_a_long_file_is_read_at_both_ends(tmp_path):
    path = tmp_path / "long.log"
    path.write_text(
        "Initializing a V1 LLM engine (v0.11.0) with config: model='x'\n" + PROGRESS * 300_000 + log_texts.PINNED
    )
    assert path.stat().st_size > 2 * log_answer.END_BYTES
    told = log_answer.explain(Case(), {"file": str(path)})
    assert (
        told["figures"]["pinned_bytes"]
        == log_answer.explain_text(log_texts.PINNED, Case(), {})["figures"]["pinned_bytes"]
    )
    assert told["engine"].startswith("vllm")
