"""A config.json on the KV size page: pasted or uploaded, read or refused; its model on every page and in links."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer import model_list, prose
from explorer.controls import COMPARED_MODELS
from explorer.frame import PAGES
from explorer.sections import own_model
from kvmodel import catalog
from kvmodel.hf import config_file
from kvmodel.units import MIB
from tests.helpers import visit

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "tests/data/hf_configs"
GEMMA = (CONFIGS / "gemma-3-27b-it.json").read_text(encoding="utf-8")
OMITS = (CONFIGS / "config_vlm_nested_omits_dims.json").read_text(encoding="utf-8")
SMALL = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128, "num_key_value_heads": 2, "max_position_embeddings": 4096,
}  # fmt: skip


def opened(page: str = "kv_size", **query: str) -> AppTest:
    at = visit.visited(PAGES[page], **query)
    at.session_state[own_model.OPEN] = True
    return at.run()


def submitted(at: AppTest) -> AppTest:
    label = prose.label("own_model", "read")
    at = next(button for button in at.button if button.label == label).click().run()
    assert not at.exception
    return at


def pasted(text: str, *, name: str = "", assume: bool = False) -> AppTest:
    at = opened()
    at.text_area(key=own_model.TEXT).set_value(text)
    at.text_input(key=own_model.NAME).set_value(name)
    at.checkbox(key=own_model.ASSUME).set_value(assume)
    return submitted(at)


def uploaded(name: str, content: bytes) -> AppTest:
    at = opened()
    at.segmented_control(key=own_model.SOURCE).set_value("upload").run()
    at.file_uploader(key=own_model.FILE).set_value((name, content, "application/json"))
    return submitted(at)


def texts(at: AppTest) -> str:
    return "\n".join(element.value for element in (*at.markdown, *at.info))


def refusal(at: AppTest) -> str:
    """The one sentence, as a visitor reads it; the model in use is still the catalog's."""
    (error,) = at.error
    assert visit.inputs(at)["model"] == "llama-3-8b"
    return error.value.replace("\\", "")


# --- a good file ---


def test_a_pasted_config_becomes_the_model():
    at = pasted(GEMMA, name="Our Gemma")
    assert not at.error
    assert visit.inputs(at)["model"] == config_file.read_text(GEMMA, name="our-gemma").text
    said = texts(at)
    assert "**our-gemma**, read from `text_config`: 80.0 KiB of KV" in said
    assert "27,009,346,304 parameters" in said
    assert "of **our-gemma** holds" in said
    fields = dict(visit.tables(at)[0].values.tolist())
    assert fields[r"text\_config.head\_dim"] == "128"
    assert fields[r"text\_config.sliding\_window"] == "1024"


def test_both_numbers_of_a_hybrid_model_with_the_reason():
    said = texts(pasted(GEMMA))
    assert "**736 MiB with the hybrid KV manager**" in said
    assert "**1.94 GiB without it, 2.7x as much**" in said
    assert "--disable-hybrid-kv-cache-manager" in said


def test_an_uploaded_config_is_named_after_its_file():
    at = uploaded("My Model.json", json.dumps(SMALL).encode())
    assert visit.inputs(at)["model"].startswith("custom~my-model~")
    assert uploaded("config.json", json.dumps(SMALL).encode()).session_state["model"].startswith("custom~llama~")


def test_draft_layers_are_counted():
    at = opened()
    at.text_area(key=own_model.TEXT).set_value(json.dumps(SMALL))
    at.number_input(key=own_model.DRAFTS).set_value(1)
    assert "full3x2x16x16" in submitted(at).session_state["model"]


def test_what_was_assumed_is_shown():
    assert "tie\\_word\\_embeddings = true" in texts(pasted(GEMMA))


# --- refused files: one sentence each ---


def test_a_file_that_asks_is_refused_until_its_defaults_are_accepted():
    assert "num_hidden_layers" in refusal(pasted(OMITS))
    at = pasted(OMITS, assume=True)
    assert not at.error
    assert "512 KiB of KV" in texts(at)
    assert "num\\_hidden\\_layers = 32" in texts(at)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "config: nothing given; allowed", id="nothing"),
        pytest.param("{ not json", "config: no JSON", id="no JSON"),
        pytest.param("[1, 2]", "config: 'list' given; allowed: a JSON object", id="a list"),
        pytest.param("\x00\x7f\x01", "config: no JSON", id="binary"),
        pytest.param("[" * 100_000, "config: no JSON", id="nested too deep"),
        pytest.param(json.dumps(SMALL | {"num_attention_heads": 5}), "head_dim", id="heads that do not divide"),
        pytest.param(json.dumps({"model_type": "whatever"}), "num_hidden_layers", id="dimensions absent"),
        pytest.param(json.dumps(SMALL | {"num_hidden_layers": -3}), "num_hidden_layers", id="negative"),
        pytest.param(json.dumps(SMALL | {"num_hidden_layers": 10**30}), "num_hidden_layers", id="huge"),
    ],
)
def test_garbage_is_refused_in_one_sentence(text: str, sentence: str):
    said = refusal(pasted(text))
    assert sentence in said
    assert "Traceback" not in said
    assert len(said) < 250


@pytest.mark.parametrize("how", ["pasted", "uploaded"])
def test_five_mib_are_too_many(how: str):
    large = json.dumps(SMALL | {"note": "x" * (5 * MIB)})
    at = pasted(large) if how == "pasted" else uploaded("large.json", large.encode())
    assert refusal(at) == "config: more than 4 MiB given; allowed: a model's config.json"


def test_a_refused_file_leaves_the_model_before_it_in_use():
    at = pasted(json.dumps(SMALL))
    mine = visit.inputs(at)["model"]
    at.session_state[own_model.OPEN] = True
    at.run()
    at.text_area(key=own_model.TEXT).set_value("{")
    assert submitted(at).session_state["model"] == mine
    assert at.error


# --- what a file may try ---

MARKUP = "<img src=x onerror=alert(1)>![](http://192.0.2.1/x.png)[click](http://192.0.2.1/) **b** `c` $d$ :red[e]"


def test_markup_in_a_name_does_not_reach_the_page():
    for at in (
        pasted(json.dumps(SMALL), name=MARKUP[:80]),
        pasted(json.dumps(SMALL | {"_name_or_path": f"a/{MARKUP}"})),
    ):
        name = catalog.model(visit.inputs(at)["model"]).label
        assert name.replace("-", "").replace(".", "").isalnum()
        assert "](http" not in texts(at)
        assert "<img" not in texts(at)


def test_an_address_for_a_name_becomes_no_link():
    at = pasted(json.dumps(SMALL), name="www.example.com")
    assert catalog.model(visit.inputs(at)["model"]).label == "example.com"


@pytest.mark.parametrize("where", [{"model_type": MARKUP}, {MARKUP: 1}, {"num_hidden_layers": MARKUP}])
def test_markup_in_keys_and_values_stays_text(where: dict[str, object]):
    at = pasted(json.dumps(SMALL | where))
    shown = [*(error.value for error in at.error), *(element.value for element in at.markdown)]
    for words in shown:
        assert "](http" not in words
        assert "<img" not in words.replace("\\<", "")


# --- on every page, in the link, and back ---


def test_the_model_is_kept_from_page_to_page_under_its_name():
    at = pasted(json.dumps(SMALL), name="mine")
    text = visit.inputs(at)["model"]
    for page in ("roofline", "crossover", "scenarios", "capacity", "evidence", "home", "kv_size"):
        at.switch_page(PAGES[page]).run()
        assert not at.exception, page
        assert visit.inputs(at)["model"] == text, page
        assert at.query_params["model"] in (text, [text])
        assert at.selectbox(key="model").options[0] == "mine"
        assert "custom~" not in texts(at)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ("claims", "glossary", "diagnose")])
def test_a_link_brings_the_model_to_a_page(page: str):
    text = config_file.read_text(GEMMA, name="linked").text
    at = opened(page, model=text, gpu="h200-sxm-141gb")
    assert not at.exception
    assert not at.warning
    assert visit.inputs(at)["model"] == text
    assert "custom~" not in texts(at)
    if page == "kv_size":
        assert "**linked** came with the link" in texts(at)


@pytest.mark.parametrize("text", ["custom~", "custom~x~l1", "custom~<b>~l1_d1", "custom~x~" + "l1_" * 900])
def test_a_broken_text_in_a_link_gives_a_sentence_and_the_default(text: str):
    at = opened(model=text)
    assert not at.exception
    assert len(at.warning) == 1
    assert visit.inputs(at)["model"] == "llama-3-8b"


def test_back_to_the_catalog_and_the_own_model_stays_in_the_list():
    at = pasted(json.dumps(SMALL), name="mine")
    at.button(key="own_model_back").click().run()
    assert visit.inputs(at)["model"] == "llama-3-8b"
    assert "model" not in at.query_params
    assert at.selectbox(key="model").options[0] == "mine"
    at.selectbox(key="model").select(at.session_state[model_list.CUSTOM]).run()
    assert not at.exception
    assert "of **mine** holds" in texts(at)
    assert len(at.selectbox(key="model").options) == len(catalog.model_ids()) + 1
    assert set(COMPARED_MODELS) <= set(catalog.model_ids())


def test_a_model_that_does_not_fit_is_read_all_the_same():
    """The KV page needs no more than the file for its first answer, whatever the GPU."""
    at = pasted((CONFIGS / "DeepSeek-V3.json").read_text(encoding="utf-8"))
    assert "needs 628 GiB" in at.warning[0].value
    assert "68.6 KiB of KV for each further token" in texts(at)


def test_a_model_without_known_weights_is_refused_where_they_are_needed():
    at = pasted((CONFIGS / "whisper-tiny.json").read_text(encoding="utf-8"), assume=True)
    assert prose.text("own_model", "weights_unknown") in texts(at)
    assert "does not tell how many parameters it has" in at.warning[0].value


def test_nothing_of_the_file_is_in_the_link():
    at = pasted(json.dumps(SMALL | {"secret_key": "hidden-value"}), name="mine")
    assert "secret" not in str(at.query_params)
    assert "hidden" not in str(at.query_params)
    assert set(at.query_params) == {"model"}
