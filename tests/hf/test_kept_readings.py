"""What is read from a config.json is as it was last checked: layers, KV and parameters of every kind of file.

Three ranges: the files of data/hf_configs; one small model of each class that has rules of its own; and some files
with one key left out or changed. After a change that is meant, write `data/kept/readings.json` anew and read what
differs:

    python -m tests.hf.test_kept_readings
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kvmodel import catalog
from kvmodel.errors import CatalogError
from kvmodel.hf import config_file, weight_bytes
from kvmodel.texts import config_reading
from tests.helpers import kept

FOLDER = Path(__file__).parents[1] / "data" / "hf_configs"
FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
PLAIN = {  # no two sizes alike, so that none can stand for another
    "hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 40,
    "intermediate_size": 416, "vocab_size": 1009, "max_position_embeddings": 2048, "sliding_window": 512,
    "tie_word_embeddings": False,
}  # fmt: skip
STATES = {
    "mamba_d_state": 8, "mamba_d_conv": 5, "mamba_expand": 2, "mamba_n_heads": 12, "mamba_d_head": 32, "conv_kernel": 5,
    "mamba_num_heads": 12, "mamba_head_dim": 32, "ssm_state_size": 8, "n_groups": 2, "mamba_dt_rank": 7,
}  # fmt: skip
SMALL = {
    "plain": PLAIN,
    "with experts": PLAIN | {
        "num_experts": 7, "num_local_experts": 7, "n_routed_experts": 7, "num_experts_per_tok": 2,
        "n_shared_experts": 1, "moe_intermediate_size": 88, "shared_expert_intermediate_size": 104,
        "first_k_dense_replace": 2,
    },
    "a period": PLAIN | STATES | {"attn_layer_period": 4, "attn_layer_offset": 1},
    "a pattern": PLAIN | STATES | {"hybrid_override_pattern": "MM-M*EM-M*-M"},
    "compressed": PLAIN | {
        "compress_ratios": [0, 4, 128] * 4, "q_lora_rank": 56, "o_lora_rank": 48, "qk_rope_head_dim": 16,
        "index_n_heads": 5, "index_head_dim": 24, "index_topk": 64,
    },
    "compressed, in streams": PLAIN | {
        "compress_ratios": [0, 4, 128] * 4, "q_lora_rank": 56, "o_lora_rank": 48, "qk_rope_head_dim": 16,
        "index_n_heads": 5, "index_head_dim": 24, "index_topk": 64, "hc_mult": 3, "o_groups": 2,
    },
    "latent": PLAIN | {"q_lora_rank": 56, "kv_lora_rank": 72, "qk_rope_head_dim": 16, "qk_nope_head_dim": 24,
                       "v_head_dim": 32},
}  # fmt: skip
FLAGS = {  # keys that some class takes a bias or a norm from
    value.removeprefix("yes if ") for facts in catalog.table("hf_classes").values() if isinstance(facts, dict)
    for key, value in facts.items() if isinstance(value, str) and key not in ("mlp", "norms")
} - {"head", "width", "head with bias"}  # fmt: skip
SMALL["flags"] = PLAIN | dict.fromkeys(FLAGS, True)
SMALL["flags, with experts"] = SMALL["with experts"] | dict.fromkeys(FLAGS, True)
CHANGED = (
    "Meta-Llama-3.1-8B", "DeepSeek-V3", "gemma-3-27b-it", "config_gpt_oss_120b", "hfdef-jamba", "hfdef-olmo_hybrid",
    "hfdef-falcon", "mlc-qwen2moe", "config_qwen3_30b_a3b", "nxd-llama3.2-1b-4L-chunked", "Kimi-K2.6-NVFP4", "mpt-7b",
    "config_gemma4_26b_a4b_like", "falcon-40b", "ipex-test-bloom", "hfdef-phimoe", "hfdef-mllama_text_model",
)  # fmt: skip
ABOUT = {"_name_or_path", "architectures", "transformers_version", "torch_dtype", "use_cache", "rope_theta"}


def classes() -> list[str]:
    """Every `model_type` that some rule names."""
    table = catalog.table("hf_classes")
    named = {each for value in table.values() if isinstance(value, list) for each in value if isinstance(each, str)}
    return sorted(named | {"zamba"} | {key for key, value in table.items() if isinstance(value, dict)})


def reading(config: dict[str, Any]) -> list[Any]:
    """The row of a file, its parameters and what was assumed or noted; or the refusal."""
    try:
        found = config_file.read(config, assume_defaults=True)
    except CatalogError as error:
        return [str(error)]
    counted = vars(found.parameters) if found.parameters else {}
    return [
        found.text, " ".join(f"{name}={value}" for name, value in counted.items()),
        f"states of transformers {found.fixed_bytes_transformers:.12g}",
        ", ".join(f"{name}={value}" for name, value in found.assumed.items()), *found.notes,
    ]  # fmt: skip


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * 2
    return value[1:] if isinstance(value, (list, str)) else None


def odd(value: Any) -> Any:
    """Of another type."""
    if isinstance(value, (list, dict)):
        return "x"
    return [7] if isinstance(value, str) or value is None else {}


def changes(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The file without each of its keys, with another value there, with an odd one; of a nested section too."""
    found: dict[str, dict[str, Any]] = {}
    inner = next((key for key in ("text_config", "llm_config") if isinstance(config.get(key), dict)), None)
    section = config[inner] if inner else config
    for key, value in section.items():
        if key in ABOUT:
            continue
        forms = {f"without {key}": {}, f"other {key}": {key: other(value)}, f"odd {key}": {key: odd(value)}}
        for name, one in forms.items():
            changed = {name: old for name, old in section.items() if name != key} | one
            found[name] = config | {inner: changed} if inner else changed
    return found


def of_files() -> dict[str, Any]:
    return {name: reading(config) for name, config in FILES.items()}


def of_page() -> dict[str, Any]:
    """What the page says of a file."""
    found = {name: config_file.read(FILES[name], assume_defaults=True) for name in CHANGED}
    return {
        name: kept.as_json(kept.flat([
            config_reading.weights_known(one), config_reading.has_fixed_part(one), config_reading.reading_texts(one),
            config_reading.default_texts(one), config_reading.field_rows(one),
        ]))
        for name, one in found.items()
    }  # fmt: skip


def of_classes() -> dict[str, Any]:
    """For each small model, its readings and the classes that have each."""
    found: dict[str, dict[str, list[str]]] = {}
    for form, small in SMALL.items():
        for name in classes() if "compressed" not in form else ["deepseek_v4"]:
            line = " ".join(reading(small | {"model_type": name})[:2]).replace(name, "CLASS")
            found.setdefault(form, {}).setdefault(line, []).append(name)
    return {form: {", ".join(names): line for line, names in lines.items()} for form, lines in found.items()}


def of_weights() -> dict[str, Any]:
    """Bytes of a model with experts for each way to say how narrow its weights are."""
    config = FILES["config_qwen3_30b_a3b"]
    ways: list[dict[str, Any]] = [
        {"quantization_config": {key: method} | group}
        for method in (*weight_bytes.BITS, *weight_bytes.EXPERTS_NARROWER)
        for key, group in (("quant_method", {}), ("quant_algo", {"group_size": 64}))
    ]
    ways += [{name: dtype} for name in weight_bytes.EXPERT_DTYPE[:1] for dtype in weight_bytes.EXPERT_BYTES]
    more = ({"bits": 8}, {"bits": 3, "group_size": -1}, {"sym": False}, {"lm_head": True}, {"ignore": ["re:.*mlp.*"]})
    ways += [{"quantization_config": {"quant_method": "gptq"} | each} for each in more]
    return {json.dumps(way): reading(config | way)[:1] + reading(config | way)[4:] for way in ways}


def of_changes(name: str) -> dict[str, Any]:
    """What each change makes another line of the reading."""
    whole = reading(FILES[name])
    found = {
        about: [line for line in reading(config) if line not in whole] for about, config in changes(FILES[name]).items()
    }
    return {about: lines for about, lines in found.items() if lines}


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    return kept.read("readings")


def test_every_file_is_read_as_it_was(read: dict[str, Any]) -> None:
    assert of_files() == read["files"]


def test_the_page_says_of_a_file_what_it_said(read: dict[str, Any]) -> None:
    assert of_page() == read["page"]


def test_every_class_counts_as_it_did(read: dict[str, Any]) -> None:
    assert of_classes() == read["classes"]


def test_every_way_to_narrow_weights_counts_as_it_did(read: dict[str, Any]) -> None:
    assert of_weights() == read["weights"]


@pytest.mark.parametrize("name", CHANGED)
def test_a_key_makes_the_difference_that_it_made(name: str, read: dict[str, Any]) -> None:
    assert of_changes(name) == read[name]


if __name__ == "__main__":
    kept.write(
        "readings",
        {"files": of_files(), "classes": of_classes(), "weights": of_weights(), "page": of_page()}
        | {name: of_changes(name) for name in CHANGED},
    )
