"""The Diagnose page: what, why and which flag for samples, pasted and uploaded scrapes and a Prometheus; errors."""

import functools
import gzip
import logging
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from explorer import choice, prose
from explorer.frame import PAGES
from explorer.sections.diagnose_answer import COLOURS
from explorer.sections.diagnose_next import NEXT
from kvmodel.diagnosis import causes, from_logs, from_prometheus, from_scrapes
from kvmodel.errors import CaseError
from kvmodel.metrics import exposition, samples
from tests.helpers import visit

ROOT = Path(__file__).resolve().parents[2]
METRICS = ROOT / "tests" / "data" / "metrics"
BADGE = re.compile(r":(\w+)-badge\[([^\]]+)\]")
SUBMIT = "FormSubmitter:diagnose-Diagnose"
SERVERS = "KVMODEL_PROMETHEUS_SERVERS"
WANTED = {
    "vllm_v0_idle_swap4gib": "Too little data",
    "vllm_0_10_deprecated_pairs_excerpt": "Too little data",
    "vllm_0_11_cache_config_offload": "Too little data",
    "vllm_0_33_classes_mid": "Too little data",
    "vllm_0_33_classes_end": "Too little data",
    "vllm_help_type_only": "No samples",
    "router_no_preemption_counter": "Not an engine",
    "python_only_three_digit_exponent": "No engine metrics",
    "sglang_dp8_retracted_excerpt": "Too little data",
    "composed_abs_vs_rate_t1": "Healthy",
}


def sample(name: str) -> str:
    return (METRICS / f"{name}.prom").read_text(encoding="utf-8")


opened = functools.partial(visit.opened, "diagnose")


def pasted(first: str, second: str = "", seconds: float | None = None, at: AppTest | None = None) -> AppTest:
    """The page after scrapes were pasted and the button was pressed."""
    at = at or opened()
    at.text_area(key="scrape").set_value(first)
    at.text_area(key="scrape2").set_value(second)
    at.number_input(key="seconds").set_value(seconds)
    at.button(key=SUBMIT).click().run()
    assert not at.exception
    return at


def verdict(at: AppTest) -> str | None:
    """The words of the badge."""
    found = [BADGE.search(element.value) for element in at.markdown]
    return next((badge.group(2) for badge in found if badge), None)


def texts(at: AppTest) -> list[str]:
    """All that is rendered as Markdown."""
    kinds = (at.markdown, at.caption, at.error, at.warning, at.info, at.header)
    return [element.value for kind in kinds for element in kind]


def evidence(at: AppTest) -> dict[str, list[str]]:
    """The lines of the evidence by what they tell."""
    return {row[0]: row[1:] for row in visit.cells(visit.tables(at)[0])}


def test_at_first_the_page_says_what_to_give_and_what_becomes_of_it():
    at = opened()
    assert verdict(at) is None
    assert not at.error
    assert at.expander[0].label == prose.label("diagnose", "inputs")
    assert prose.text("diagnose", "privacy") in [caption.value for caption in at.caption]
    offered = list(at.segmented_control(key="source").options)
    assert offered == [choice.quiet("Paste"), choice.quiet("Upload")], "no Prometheus is configured"


@pytest.mark.parametrize(
    ("name", "words", "flag"),
    [
        ("healthy", "Healthy", None),
        ("pressure", "Preemption pressure", "--gpu-memory-utilization 0.95"),
        ("queueing", "Queueing for a seat", "--max-num-seqs "),
    ],
)
def test_a_sample_is_diagnosed_at_one_click(name, words, flag):
    at = opened()
    at.button(key=f"sample-{name}").click().run()
    assert not at.exception
    assert verdict(at) == words
    assert at.query_params["sample"] in (name, [name])
    assert at.session_state["diagnosis_inputs"] is False, "the inputs are folded away"
    assert "simulated" in " ".join(caption.value for caption in at.caption)
    assert flag is None or at.code[0].value.startswith(flag)
    strip, scale = at.get("plotly_chart")
    assert "from its arrival to its last token" in strip.proto.alt
    assert "preemptions per 100 finished requests" in scale.proto.alt
    assert verdict(opened(sample=name)) == words, "and from a link"


def test_a_link_to_no_sample_opens_the_page():
    for named in ("none", "<script>", "../healthy"):
        assert verdict(opened(sample=named)) is None


@pytest.mark.parametrize("name", WANTED)
def test_a_scrape_gives_its_verdict(name):
    at = pasted(sample(name))
    assert verdict(at) == WANTED[name]
    assert not at.error
    assert not any("[[" in text or "nan" in text.split() or "None" in text for text in texts(at))


def test_two_scrapes_tell_what_happens_now():
    first, second = sample("composed_abs_vs_rate_t0"), sample("composed_abs_vs_rate_t1")
    at = pasted(first, second, 3600)
    assert verdict(at) == "Healthy"
    assert any("0.20 preemptions per 100 finished requests" in text for text in texts(at))
    assert evidence(at)["finished requests"][0] == "0.28 a second"
    at = pasted(first, second)
    assert any("“Seconds between them” gives rates" in text.replace("\\", "") for text in texts(at))


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        pytest.param("", "", prose.text("diagnose", "nothing"), id="empty"),
        pytest.param("", "up 1", prose.text("diagnose", "nothing"), id="only the second"),
        pytest.param(sample("composed_abs_vs_rate_t0"), "up 1", "“Second scrape, later”: 1 metrics, none", id="other"),
        pytest.param("# " + "x" * exposition.LONGEST_TEXT, "", "“First scrape”: ", id="too large"),
    ],
)  # fmt: skip
def test_an_error_is_a_sentence_and_the_page_stays_usable(first, second, sentence):
    at = pasted(first, second)
    (error,) = at.error
    assert error.value.replace("\\", "").startswith(sentence.replace("\\", ""))
    assert "\n" not in error.value
    assert verdict(at) is None
    assert verdict(pasted(sample("composed_abs_vs_rate_t1"), at=at)) == "Healthy"


@pytest.mark.parametrize(
    "garbage", ["hello", "<html><body>404</body></html>", "\x00\x01\ufffd", "{}" * 1000, "a{b=" * 99]
)
def test_garbage_is_no_scrape(garbage):
    at = pasted(garbage)
    assert verdict(at) == "No samples" or at.error


MARKUP = "<img src=x onerror=alert(1)> [go](http://192.0.2.1) ![](http://192.0.2.1/p.png) :red[x] $y$ `z` **b** # h | t"


def hostile() -> str:
    """Two engines under pressure whose labels are markup."""
    lines = ["broken " + MARKUP]
    for engine in ("0", "1"):
        own = f'engine="{engine}\\n\\n# {MARKUP}",model_name="{MARKUP}"'
        lines += [
            f"vllm:num_preemptions_total{{{own}}} 400", f"vllm:num_requests_running{{{own}}} 8",
            f"vllm:num_requests_waiting{{{own}}} 1", f"vllm:kv_cache_usage_perc{{{own}}} 0.97",
            f'vllm:request_success_total{{finished_reason="{MARKUP}",{own}}} 1000',
            f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="5000",cache_dtype="{MARKUP}",{own}}} 1',
        ]  # fmt: skip
    return "\n".join(lines)


def test_markup_in_labels_stays_text():
    at = pasted(hostile())
    assert verdict(at) == "Preemption pressure"
    shown = [text for text in texts(at) if "onerror" in text]
    assert len(shown) >= 4, "reason, table of engines, finished by reason, broken line"
    for text in shown:
        assert not re.search(r"(?<!\\)(<img|\]\(|!\[|:red\[|\$y|`z|\*\*b\*\*)", text), text
        assert "http://" not in text
    for code in at.code:
        assert "onerror" not in code.value
    assert not any("onerror" in chart.proto.spec for chart in at.get("plotly_chart"))


def test_nothing_of_a_paste_is_in_the_link_the_logs_or_another_session(caplog):
    secret = sample("composed_abs_vs_rate_t1").replace("demo", "secret-model-7b")
    with caplog.at_level(logging.DEBUG):
        at = pasted(secret)
    assert any("secret-model-7b" in text for text in texts(at))
    assert not at.query_params
    assert "secret-model" not in caplog.text
    assert not any("secret-model" in text for text in texts(opened()))


def test_a_paste_is_gone_when_the_page_is_left():
    at = pasted(sample("composed_abs_vs_rate_t1"))
    at.switch_page(PAGES["claims"]).run()
    assert "scrape" not in at.session_state
    at.switch_page(PAGES["diagnose"]).run()
    assert verdict(at) == "Healthy", "the answer waits"
    assert not at.text_area(key="scrape").value
    assert not [box for box in at.selectbox if box.key == "server_gpu"], "there is nothing to ask again"


def test_the_form_can_be_emptied():
    at = pasted(sample("composed_abs_vs_rate_t1"))
    at.button(key="forget").click().run()
    assert not at.exception
    assert verdict(at) is None
    assert not at.text_area(key="scrape").value
    assert at.session_state["diagnosis"] is None


def test_what_is_not_reported_is_shown_as_such_with_the_metric_that_is_missing():
    lines = evidence(pasted(sample("vllm_0_10_deprecated_pairs_excerpt")))
    value, metric, _ = lines["preemptions per 100 finished"]
    assert value == ":gray[not reported]"
    assert metric == "`vllm:num_preemptions_total`, `vllm:request_success_total`"
    value, metric, over = lines["KV pool in use"]
    assert (metric, over) == ("`vllm:kv_cache_usage_perc`", "at the scrape")
    assert value != ":gray[not reported]"


def test_a_broken_line_is_named():
    at = pasted("vllm:num_requests_running 3 oh dear\n" + sample("composed_abs_vs_rate_t1"))
    assert verdict(at) == "Healthy"
    assert any("line 1" in text and "oh dear" in text for text in texts(at))


def test_the_article_s_bands_come_with_what_speaks_against_them():
    at = opened(sample="pressure")
    said = "\n".join(texts(at))
    assert evidence(at)["the article's word for it"][0].startswith("20 % and more")
    assert said.index(prose.text("diagnose", "against")) < said.index("it is a rule of thumb")


def test_what_the_visitor_adds_is_answered_at_once():
    at = opened(sample="pressure")
    at.number_input(key="server_gpu_hour").set_value(4.0).run()
    assert any("In money:" in text for text in texts(at))
    before = [text for text in texts(at) if "In money:" in text]
    at.selectbox(key="server_gpu").select("h100-sxm5-80gb").run()
    after = [text for text in texts(at) if "In money:" in text]
    assert "h100-sxm5-80gb" in after[0]
    assert before != after
    at.text_input(key="server_engine_version").set_value("new").run()
    assert "“Engine version”" in at.error[0].value or "version" in at.error[0].value


def test_a_sample_s_gpu_is_not_taken_for_the_visitor_s():
    at = pasted(sample("composed_abs_vs_rate_t1"), at=opened(sample="pressure"))
    assert verdict(at) == "Healthy"
    assert at.session_state["server_gpu"] is None
    assert not at.query_params
    assert "simulated" not in " ".join(caption.value for caption in at.caption)


def test_the_server_opens_in_the_other_pages_that_there_are():
    protos = [link.proto for link in opened(sample="pressure").get("page_link")]
    links = {proto.page: parse_qs(proto.query_string) for proto in protos if proto.query_string}
    assert set(links) == set(NEXT) & set(PAGES)
    for query in links.values():
        assert (query["model"], query["gpu"]) == (["llama-3.1-8b"], ["l40s"])
    assert links["crossover"]["policy"] == ["vllm-v1"]
    if "pressure" in PAGES:
        told = links["pressure"]
        blocks = int(told["num_blocks"][0])
        assert (told["scheduler"], told["utilization"], told["prefix_caching"]) == (["vllm-v1"], ["0.92"], ["true"])
        assert (blocks + 1) * 16 == 202_160  # the null block is counted by the engine, and given to nobody
        assert float(told["requests_per_s"][0]) == pytest.approx(3.33, abs=0.01)
    at = pasted(sample("composed_abs_vs_rate_t1"))
    assert prose.text("diagnose", "next_no_model") in texts(at)


def test_rules_and_dashboard_are_there_to_download():
    at = opened(sample="pressure")
    labels = [button.proto.label for button in at.get("download_button")]
    assert labels == [prose.label("diagnose", f"download.{what}") for what in ("rules", "dashboard")]
    assert any("increase(vllm:num_preemptions_total[1h])" in code.value for code in at.code)


def test_a_scrape_can_be_uploaded_and_may_be_gzipped():
    at = opened()
    at.segmented_control(key="source").set_value("upload").run()
    data = gzip.compress(sample("composed_abs_vs_rate_t1").encode())
    at.file_uploader(key="scrape_file").set_value(("scrape.prom.gz", data, "application/gzip"))
    at.button(key=SUBMIT).click().run()
    assert not at.exception
    assert verdict(at) == "Healthy"


# --- Prometheus ---


def asked(at: AppTest) -> AppTest:
    at.segmented_control(key="source").set_value("prometheus").run()
    at.button(key=SUBMIT).click().run()
    assert not at.exception
    return at


def test_a_configured_server_is_asked_and_no_other(monkeypatch):
    seen = []

    def answering(url, window, *, match, facts):
        seen.append((url, window, match, dict(facts.fields)))
        return from_scrapes.diagnose(sample("composed_abs_vs_rate_t1"), facts=facts)

    monkeypatch.setenv(
        SERVERS,
        "main=http://user:word@192.0.2.1:9090 https://other.example",  # pragma: allowlist secret
    )
    monkeypatch.setattr(from_prometheus, "diagnose", answering)
    at = opened()
    at.segmented_control(key="source").set_value("prometheus").run()
    assert at.selectbox(key="server").options == ["main", "other.example"]
    at.text_input(key="match").set_value('job="vllm"')
    at.selectbox(key="window").select("6h")
    at.button(key=SUBMIT).click().run()
    assert not at.exception
    assert verdict(at) == "Healthy"
    url, window, match, _ = seen[0]
    assert (url, window, match) == ("http://user:word@192.0.2.1:9090", "6h", 'job="vllm"')  # pragma: allowlist secret
    assert not any("word@" in text for text in texts(at)), "credentials are not shown"
    assert {box.key for box in at.text_input} == {"match", "server_engine_version"}, "no field takes an address"


class Refusing(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_error(401)

    do_GET = do_POST

    def log_message(self, *_):
        pass


def test_a_server_that_wants_credentials_or_is_not_there_is_a_sentence(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv(SERVERS, f"main=http://127.0.0.1:{server.server_port}")
    try:
        at = asked(opened())
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert "asks for credentials" in at.error[0].value
    at.button(key=SUBMIT).click().run()
    assert "refused the connection" in at.error[0].value


def test_a_bad_configuration_leaves_the_other_ways(monkeypatch):
    monkeypatch.setenv(SERVERS, "main=ftp://192.0.2.1")
    at = opened()
    assert at.warning[0].value.startswith("prometheus")
    assert verdict(pasted(sample("composed_abs_vs_rate_t1"), at=at)) == "Healthy"


def test_a_server_that_left_the_configuration_is_a_sentence(monkeypatch):
    monkeypatch.setenv(SERVERS, "main=http://192.0.2.1:9090")
    at = opened()
    at.segmented_control(key="source").set_value("prometheus").run()
    monkeypatch.delenv(SERVERS)
    at.button(key=SUBMIT).click().run()
    assert not at.exception
    assert at.error
    assert verdict(at) is None


def test_every_verdict_has_a_name_and_a_colour():
    logs = (from_logs.START_UP_LOG, from_logs.REFUSED, from_logs.STOPPED)
    assert set(COLOURS) == {*causes.WORST_FIRST, *logs}
    for named in (*COLOURS, "no samples", "not an engine", "no engine metrics"):
        assert prose.label("diagnose", f"verdict.{named}")


def test_samples_are_of_one_server_each():
    for name in samples.SAMPLES:
        first, second = samples.read(name)
        assert from_scrapes.diagnose(first, second, seconds=samples.SECONDS)["verdict"] != "too little data"
        if name == "stuck":  # its counters stand still
            continue
        with pytest.raises(CaseError, match="taken before SCRAPE"):
            from_scrapes.diagnose(second, first, seconds=samples.SECONDS)
