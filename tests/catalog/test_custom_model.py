"""Models as text: what a link carries, and that nothing else is taken for one."""

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.catalog import custom_model
from kvmodel.errors import CaseError, CatalogError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.recovery import comparison

PLAIN = "custom~small~l4_d512_h8_g2_w64_full4x2x64x64"


def test_the_numbers_that_matter_come_back():
    model = catalog.model(PLAIN)
    assert (model.num_hidden_layers, model.hidden_size, model.num_attention_heads) == (4, 512, 8)
    assert (model.num_key_value_heads, model.head_dim) == (2, 64)
    (group,) = model.kv_layers
    assert (group.kind, group.layers, group.kv_heads, group.key_dim, group.value_dim) == ("full", 4, 2, 64, 64)
    assert (model.id, model.name) == (PLAIN, "small")
    assert custom_model.as_text(model) == PLAIN


@pytest.mark.parametrize("name", catalog.model_ids())
def test_layers_of_every_row_survive(name):
    row = catalog.model(name)
    text = custom_model.as_text(row)
    again = catalog.model(text)
    assert again.kv_layers == row.kv_layers
    assert again.num_attention_heads == row.num_attention_heads
    assert quote(text) == text  # no character that a URL escapes
    assert catalog.id_of("model", f" {text.upper()} ") == text


def test_a_case_may_have_a_model_of_its_own():
    """Every price is that of the same model in the catalog."""
    config = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128_256, "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip
    text = config_file.read(config, name="My Llama!").text
    assert text.startswith("custom~my-llama~")
    own, known = (comparison.as_json(comparison.compare_case(Case(model=model))) for model in (text, "llama-3-8b"))
    assert own["strategies"] == known["strategies"]
    assert own["break_even"] == known["break_even"]
    with pytest.raises(CaseError, match="^tp: 3 given for 32 query and 8 KV heads of my-llama; allowed: "):
        Case(model=text, tp=3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("custom~", r"^model: name '' given; allowed: letters, digits, dots and dashes$"),
        ("custom~a b~l4", r"^model: name 'a b' given; allowed: "),
        ("custom~x~l4", r"^model: x is refused: hidden_size is missing$"),
        ("custom~x~" + PLAIN.split("~")[2] + "_l4", r"^model: x is refused: 'l4' is given twice or out of range$"),
        ("custom~x~" + PLAIN.split("~")[2] + "_hello", r"^model: x is refused: 'hello' is no number or group of "),
        ("custom~x~l4_d512_h8_g2_w64_sliding4x2x64x64", r"^model: x is refused: bound_tokens belongs to "),
        ("custom~x~l4.5_d512_h8_g2_w64_full4x2x64x64", r"^model: x is refused: l must be a whole number: 4.5$"),
        ("custom~x~l4_d512_h8_g2_w64_m5_full4x2x64x64", r"^model: x is refused: m, o and b are given together or not"),
        ("custom~x~" + "l4_" * 1000, r"^model: a text of [0-9,]+ characters given; allowed: up to 2,000$"),
        ("custom", r"^model: unknown id 'custom'; nearest: "),
    ],
)  # fmt: skip
def test_bad_texts_are_refused_in_one_sentence(text, sentence):
    with pytest.raises(CatalogError, match=sentence):
        catalog.model(text)
    with pytest.raises(CaseError):
        Case(model=text)


@given(st.text(alphabet="custom~l4_d512hgwfullx0.9-b", max_size=60))
def test_any_text_is_a_model_or_a_sentence(rest):
    try:
        model = catalog.model("custom~" + rest)
    except CatalogError as error:
        sentence = str(error)
    else:
        assert catalog.model(model.id) == model
        return
    assert sentence
    assert "\n" not in sentence


def test_names_are_for_people():
    assert custom_model.slug("Qwen/Qwen2.5-7B (GPTQ)") == "qwen-qwen2.5-7b-gptq"
    assert custom_model.slug("***") == "model"
    assert re.fullmatch(custom_model.NAME, custom_model.slug("a" * 80))


@pytest.mark.parametrize("label", ["www.example.com", "-WWW.www.example.com", "www.", "..www.x"])
def test_a_name_is_no_address(label):
    """A page would make a link of it; elsewhere in a name the letters are harmless."""
    assert not custom_model.slug(label).startswith("www.")
    with pytest.raises(CatalogError, match="allowed: letters, digits, dots and dashes"):
        custom_model.from_text("custom~www.example.com~l1_d1_h1_g1_w1_full1x1x1x1")
