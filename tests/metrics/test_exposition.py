"""Pages of /metrics as they come: broken lines, other encodings, other formats, odd values, and far too much of it."""

import codecs
import gzip
import math
import random
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kvmodel.diagnosis import from_scrapes
from kvmodel.errors import CaseError
from kvmodel.metrics.exposition import CUT, LONGEST_TEXT, MOST_LINES, labels_of, read_scrape
from tests.helpers.scrapes import SAMPLES, sample, vllm

ONE = 'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'


def everything(text):
    return read_scrape(text, lambda name: True)


def values(text):
    return {(found.name, *sorted(found.labels.items()), found.le): found.value for found in everything(text).samples}


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.prom")), ids=lambda path: path.stem)
def test_samples_read_as_prometheus_own_client_reads_them(path):
    text = path.read_text()
    expected = {}
    for family in text_string_to_metric_families(text):
        for found in family.samples:
            labels = dict(found.labels)
            le = float(labels.pop("le")) if found.name.endswith("_bucket") else None
            value = found.value if 0 <= found.value < math.inf else None  # -1 is how an engine says "not enabled"
            expected[found.name, *sorted(labels.items()), le] = value
    assert values(text) == expected
    assert everything(text).notes == ()


BROKEN = [
    'vllm:num_requests_waiting{engine="0" 3.0',
    'vllm:num_requests_waiting{engine="0"} three',
    "vllm:num_requests_waiting",
    'vllm:num_requests_waiting{engine=0} 3.0',
    'vllm:num_requests_waiting{engine="0",engine="1"} 3.0',
    'vllm:num_requests_waiting{engine="0"} 1.2.3',
    'vllm:num_requests_waiting{engine="0"} 1_000',
    "vllm:unknown{ 3.0",
    "Traceback (most recent call last):",
    "}{",
]  # fmt: skip


@pytest.mark.parametrize("line", BROKEN)
@pytest.mark.parametrize("before", [0, 1])
def test_a_broken_line_is_named_and_the_rest_is_read(line, before):
    text = ONE * before + line + "\n" + ONE.replace("running", "swapped")
    scrape = everything(text)
    assert "vllm:num_requests_swapped" in {found.name for found in scrape.samples}
    (note,) = scrape.notes
    assert note.startswith((f"line {1 + before} is broken and was left out: {line[:40]}", "a line is broken"))


def test_many_broken_lines_are_counted():
    scrape = everything(ONE + "x y z w\n" * 50)
    assert len(scrape.notes) == 4
    assert scrape.notes[-1] == "47 more lines are broken and were left out"


@pytest.mark.parametrize("text", ["NaN", "nan", "-1", "-1.0", "None", "null", "+Inf", "-Inf"])
def test_what_is_not_reported_is_not_zero(text):
    (found,) = everything(f"vllm:gpu_prefix_cache_hit_rate {text}\n").samples
    assert found.value is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.1701968896e+010", 11_701_968_896),
        ("0", 0),
        ("1e-06", 1e-6),
        ("+5", 5),
        (".5", 0.5),
        ("5.", 5),
        ("3 1780000000000", 3),
    ],
)
def test_numbers(text, value):
    (found,) = everything(f"x {text}\n").samples
    assert found.value == value


@pytest.mark.parametrize(
    "data",
    [
        ONE.encode(), ONE.encode("utf-16"), ONE.encode("utf-8-sig"), codecs.BOM_UTF16_BE + ONE.encode("utf-16-be"),
        gzip.compress(ONE.encode(), mtime=0), gzip.compress(ONE.encode("utf-16"), mtime=0),
        ONE.replace("\n", "\r\n").encode(),
        ("  " + ONE).encode(), ONE.replace(" 3", "\t 3").encode(), ONE.strip().encode(),
        ONE.replace('{engine="0",model_name="m"}', '{ engine = "0" , model_name="m", }').encode(),
    ],
)  # fmt: skip
def test_encodings(data):
    (found,) = everything(data).samples
    assert (found.labels, found.value) == ({"engine": "0", "model_name": "m"}, 3)


def test_a_gzip_that_ends_early_gives_what_is_there():
    data = gzip.compress((ONE + sample("vllm_0_33_classes_end").decode()).encode())
    scrape = everything(data[: len(data) // 2])
    assert scrape.samples[0].value == 3
    assert "the gzip file ends early; what is there was read" in scrape.notes


def test_a_gzip_of_several_members_is_read_to_its_end():
    half = len(ONE) // 2
    packed = gzip.compress(ONE[:half].encode()) + gzip.compress(ONE[half:].encode()) + b"\0" * 8
    assert everything(packed).samples == everything(ONE).samples
    with pytest.raises(CaseError, match="unpacks to more than"):
        everything(gzip.compress(b"a" * LONGEST_TEXT) + gzip.compress(b"a"))


def test_a_number_that_no_counter_reaches_is_a_broken_line():
    scrape = everything(ONE.replace("3.0", "1e300"))
    assert not scrape.samples
    assert "is broken and was left out" in scrape.notes[0]


def test_openmetrics_with_exemplars():
    """Its exposition writes `_` for the colon, and meanings are found all the same."""
    registry = CollectorRegistry()
    latency = Histogram("vllm:e2e_request_latency_seconds", "h", ["engine"], registry=registry, buckets=(1, 2))
    latency.labels("0").observe(1.5, {"trace_id": "a b # c"})
    Counter("vllm:num_preemptions", "h", ["engine"], registry=registry).labels("0").inc(7, {"trace_id": "x"})
    text = generate_openmetrics(registry).decode()
    assert " # {" in text
    assert text.endswith("# EOF\n")
    scrape = everything(text)
    assert scrape.notes == ()
    found = {(one.name, one.le): one.value for one in scrape.samples}
    assert found["vllm_num_preemptions_total", None] == 7
    assert found["vllm_e2e_request_latency_seconds_bucket", 1.0] == 0
    assert found["vllm_e2e_request_latency_seconds_bucket", 2.0] == 1
    assert found["vllm_e2e_request_latency_seconds_bucket", math.inf] == 1
    assert from_scrapes.diagnose(text)["rates"]["preemptions"] == 7


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.text(max_size=20), st.floats(0, 1e18))
def test_any_label_value_comes_through(text, value):
    registry = CollectorRegistry()
    Gauge("x", "h", ["a", "b"], registry=registry).labels(text, "le").set(value)
    (found,) = everything(generate_latest(registry).decode()).samples
    assert found.labels == {"a": text, "b": "le"}
    assert found.value == pytest.approx(value)


def test_a_series_that_stands_twice_counts_once():
    scrape = everything(ONE + ONE.replace("3.0", "4.0"))
    assert [found.value for found in scrape.samples] == [4]
    assert scrape.notes == ("1 series stand in it twice; the later value counts",)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "SCRAPE: empty; allowed: the text of an engine's /metrics page"),
        (b" \n\r\n", "SCRAPE: empty; allowed: the text of an engine's /metrics page"),
        (b"<!DOCTYPE html><html>", "SCRAPE: a web page was given; allowed: the text of an engine's /metrics page"),
        (b"\x1f\x8bnot gzip", "SCRAPE: starts like gzip but cannot be unpacked; allowed: text, or gzip of it"),
        (
            gzip.compress(b"a" * (LONGEST_TEXT + 1), mtime=0),
            f"SCRAPE: unpacks to more than 8.00 MiB; allowed: up to that; {CUT}",
        ),
        (b"a" * (LONGEST_TEXT + 1), f"SCRAPE: more than 8.00 MiB given; allowed: up to that; {CUT}"),
        (b"\n" * (MOST_LINES + 1), f"SCRAPE: 300,001 lines given; allowed: up to 300,000; {CUT}"),
    ],
)  # fmt: skip
def test_what_is_no_scrape_is_one_sentence(data, sentence):
    with pytest.raises(CaseError) as raised:
        everything(data)
    assert str(raised.value) == sentence


def test_what_is_read_is_bounded():
    many = "".join(f'x{{a="{number}"}} 1\n' for number in range(25_000))
    with pytest.raises(CaseError, match="more than 20,000 different label sets"):
        everything(many)
    engines = "".join(f'vllm:num_requests_running{{engine="{number}"}} 1\n' for number in range(3_000))
    with pytest.raises(CaseError, match="more than 2,000 engines"):
        from_scrapes.diagnose(engines)


# --- a fuzzer: whatever is done to a page, there is an answer or one sentence ---


def mutilated(text, rng):
    lines = text.split("\n")
    kind = rng.randrange(9)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:
        rng.shuffle(lines)
        return "\n".join(lines)
    if kind == 2:
        bad = ["NaN", "-1", "None", "1e999", "-0", "0x10", "1,5", "", "1e-400", "9" * 400, "١"]
        return "\n".join(
            f"{line.rsplit(' ', 1)[0]} {rng.choice(bad)}" if rng.random() < 0.3 and " " in line else line
            for line in lines
        )
    if kind == 3:
        raw = bytearray(text.encode())
        for _ in range(rng.randrange(1, 200)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        return bytes(raw)
    if kind == 4:
        return "\n".join(line for line in lines if rng.random() < 0.7)
    if kind == 5:
        start = rng.randrange(len(text))
        return text[:start] + "".join(rng.choices(string.printable, k=rng.randrange(500))) + text[start:]
    if kind == 6:
        return rng.randbytes(rng.randrange(5_000))
    if kind == 7:
        return "\n".join(line.replace('engine="0"', f'engine="{rng.randrange(4)}"') for line in lines)
    return text.replace(
        rng.choice(["engine", "total", "bucket", "le=", "vllm", '"', "{", "_"]), rng.choice(["", "x", '"'])
    )


TEXTS = [path.read_text() for path in sorted(SAMPLES.glob("*.prom"))] + [vllm(running=60, usage=0.98, preemptions=300)]


@pytest.mark.parametrize("seed", range(8))
def test_a_mutilated_page_gives_an_answer_or_a_sentence(seed):
    rng = random.Random(seed)
    for _ in range(40):
        first = mutilated(rng.choice(TEXTS), rng)
        second = mutilated(rng.choice(TEXTS), rng) if rng.random() < 0.4 else None
        said = answer_or_sentence(first, second)
        assert said
        assert "\n" not in said
        assert len(said) < 600


def answer_or_sentence(first, second):
    try:
        return from_scrapes.diagnose(first, second, seconds=60.0 if second is not None else None)["reason"]
    except CaseError as refusal:
        return str(refusal)


# --- kinds that such a fuzzer found ---


def test_more_labels_than_an_engine_has_are_a_broken_line_and_take_no_time():
    labels = ",".join(f'a{number}="b"' for number in range(80_000))
    began = time.process_time()
    scrape = everything(f'vllm:num_requests_running{{{labels}}} 1\nvllm:num_requests_waiting{{engine="0"}} 2\n')
    assert time.process_time() - began < 1
    assert [found.name for found in scrape.samples] == ["vllm:num_requests_waiting"]
    assert "broken and was left out" in scrape.notes[0]
    settings_of_vllm = ",".join(f'cache_setting_{number}="value {number}"' for number in range(100))
    assert len(everything(f"vllm:cache_config_info{{{settings_of_vllm}}} 1\n").samples[0].labels) == 100


@pytest.mark.parametrize("bound", ["-1", "-Inf", "-0.001"])
def test_no_time_is_below_zero(bound):
    name = "vllm:request_queue_time_seconds"
    times = {f'_bucket{{le="{bound}"}}': 50, '_bucket{le="1.0"}': 50, '_bucket{le="+Inf"}': 50, "_count": 50, "_sum": 5}
    page = vllm() + "".join(f"{name}{series} {value}\n" for series, value in times.items())
    queue = from_scrapes.diagnose(page)["rates"]["queue_time_s"]
    assert all(0 <= queue[part] <= 1 for part in ("p50", "p95", "p99"))


def test_a_name_of_any_length_is_shown_short():
    said = answer_or_sentence("x" * 100_000 + ":y 1\n", None)
    assert "none of vLLM" in said
    assert len(said) < 200


def test_a_rank_of_thousands_of_digits_is_no_number():
    page = "".join(f'sglang:num_running_reqs{{dp_rank="{rank}"}} 3\n' for rank in ("1", "7" * 5000))
    assert from_scrapes.diagnose(page)["ranks"] == {"seen": [1], "at_least": 2}


def test_gzip_files_joined_in_one():
    page = gzip.compress(ONE.encode(), mtime=0)
    assert len(everything(page + gzip.compress(ONE.replace("running", "waiting").encode(), mtime=0)).samples) == 2
    began = time.process_time()
    with pytest.raises(CaseError, match=r"^SCRAPE: more than 100 gzip files joined in one; allowed: one of them$"):
        everything(gzip.compress(b"", mtime=0) * 100_000)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "labels",
    [
        'a="b"', 'a="b",', 'a="b",c="d,e=f{}"', 'a="",b="ü"', 'a="b\\"c"', ' a = "b" , c="d"', 'a="b",a="c"', '__a="b"',
        'a="b",,', 'a="b"c="d"', "a=b", '1a="b"', 'a="b",c', '"a"="b"', 'é="b"',
    ],
)  # fmt: skip
def test_plain_labels_are_read_as_prometheus_own_client_reads_them(labels):
    try:
        (family,) = text_string_to_metric_families(f"x{{{labels}}} 1\n")
        expected = dict(family.samples[0].labels)
    except (ValueError, IndexError):
        expected = None
    assert labels_of(labels) == expected


def test_many_label_sets_take_no_time():
    page = "".join(f'vllm:request_success_total{{finished_reason="{n}",engine="0"}} 1\n' for n in range(16_000))
    labels_of('a = "b"')  # the client is imported once
    began = time.process_time()
    assert len(everything(page).samples) == 16_000
    assert time.process_time() - began < 1
