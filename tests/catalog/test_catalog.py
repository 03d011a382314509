import math
import re

import pytest

from kvmodel import catalog
from kvmodel.catalog import Gpu, Link, Model, SourcedNumber, weights
from kvmodel.errors import CatalogError
from kvmodel.evidence import measured
from kvmodel.units import GB, GIB, TFLOP, US

KINDS = {
    "model": (catalog.model, catalog.model_ids, Model),
    "gpu": (catalog.gpu, catalog.gpu_ids, Gpu),
    "link": (catalog.link, catalog.link_ids, Link),
}
ROWS = [(kind, row_id) for kind, (_, ids, _) in KINDS.items() for row_id in ids()]
MODELS, GPUS, LINKS = catalog.model_ids(), catalog.gpu_ids(), catalog.link_ids()
DATA_FILES = (
    "models", "gpus", "links", "copies", "assumptions", "fitted", "engines", "scenarios",
    "metrics", "eras", "claims", "releases", "diagnosis", "advice", "workloads", "hf_classes", "kv_dtypes",
)  # fmt: skip

# As the measurements that the model is tested on name their models and hardware.
# fmt: off
MEASURED_MODELS = [
    "llama2-7b", "llama-7b", "llama2-13b", "llama2-70b", "llama-65b", "llama3-8b", "llama3.1-8b", "llama3-70b",
    "llama3.1-70b", "llama3.2-1b", "bloom-176b", "opt-13b", "opt-66b", "codellama-34b", "internlm-20b", "qwen-72b",
    "phi-2", "qwen3-32b", "mistral-7b", "gpt-j-6b", "falcon-180b", "yi-6b", "mistral-nemo-12b", "qwen2.5-7b",
    "qwen2.5-14b", "seed-oss-36b",
]
# fmt: on
MEASURED_HARDWARE = {  # name: (dense 16-bit TFLOP/s, memory GB/s, memory GB, link GB/s, NVLink one way GB/s)
    "A100-SXM4-40GB": (312, 1555, 40, 31.5, 300),
    "A100-SXM4-80GB": (312, 2039, 80, 31.5, 300),
    "A100-PCIe-80GB": (312, 1935, 80, 31.5, None),
    "H100-SXM5-80GB": (989, 3350, 80, 63, 450),
    "H100-PCIe-80GB": (756, 2000, 80, 63, None),
    "H200-SXM-141GB": (989, 4800, 141, 63, 450),
    "GH200-96GB": (989, 4000, 96, 450, 450),
    "L40S": (362, 864, 48, 31.5, None),
    "RTX-PRO-6000-BSE": (467.8, 1792, 96, 63, None),
    "A40": (149.7, 696, 48, 31.5, None),
    "RTX-A6000": (154.8, 768, 48, 31.5, None),
    "RTX6000-Ada": (364.2, 960, 48, 31.5, None),
    "RTX4090": (165.2, 1008, 24, 31.5, None),
    "RTX4080": (97.5, 717, 16, 31.5, None),
    "RTX3090": (71.2, 936, 24, 31.5, None),
    "T4": (65, 320, 16, 15.75, None),
    "MI300X": (1307.4, 5300, 192, 63, None),
}


def figures(row: Gpu | Link) -> dict[str, SourcedNumber]:
    return {key: value for key, value in vars(row).items() if isinstance(value, SourcedNumber)}


def sources_in(value: object) -> set[str]:
    """Every source id inside a table: `source = "..."` at any depth, and the values of `figure_sources`."""
    if isinstance(value, list):
        return set().union(*map(sources_in, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    found = set(value.get("figure_sources", {}).values())
    for key, part in value.items():
        found |= {part} if key == "source" else sources_in(part)
    return found


def existing_tables() -> dict[str, dict[str, object]]:
    tables = {}
    for name in DATA_FILES:
        try:
            tables[name] = catalog.table(name)
        except FileNotFoundError:
            assert name not in ("models", "gpus", "links")
    return tables


@pytest.mark.parametrize(("kind", "row_id"), ROWS)
def test_every_row_validates(kind: str, row_id: str) -> None:
    find, _, row_class = KINDS[kind]
    row = find(row_id)
    assert catalog.validated(kind, row_class, row_id, catalog.table(f"{kind}s")[row_id]) == row
    assert row.id == row_id
    assert row.label


def test_enough_rows() -> None:
    assert len(MODELS) >= 42
    assert len(GPUS) >= 27
    assert {f"pcie{generation}-x{lanes}" for generation in (3, 4, 5, 6) for lanes in (8, 16)} | {
        "nvlink-c2c",
        "pcie4-x16-cloud-2023",
    } <= set(LINKS)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_aliases_are_well_formed_and_unique(kind: str) -> None:
    find, ids, _ = KINDS[kind]
    names = [name for row_id in ids() for name in (row_id, *find(row_id).aliases)]
    assert len(names) == len(set(names))
    for name in names:
        assert re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", name), name
    for row_id in ids():
        for alias in find(row_id).aliases:
            assert find(alias).id == row_id
            assert find(f" {alias.upper()} ").id == row_id


@pytest.mark.parametrize("kind", KINDS)
def test_rows_parsed_apart_equal_the_file_parsed_whole(kind: str) -> None:
    find, ids, row_class = KINDS[kind]
    whole = catalog.table(kind + "s")
    assert tuple(whole) == ids()
    for row_id, fields in whole.items():
        assert catalog.validated(kind, row_class, row_id, fields) == find(row_id)


# --- sources ---


def test_every_source_exists_and_is_used() -> None:
    rows = {row.source for row in (*measured.steps(), *measured.copies())}
    used = rows.union(*map(sources_in, existing_tables().values()))
    known = set(catalog.table("sources"))
    assert used - known == set(), "used, but not in sources.toml"
    assert known - used == set(), "in sources.toml, but not used"


@pytest.mark.parametrize("source_id", catalog.table("sources"))
def test_a_source_can_be_found_again(source_id: str) -> None:
    source = catalog.source(source_id)
    if source_id == "article":  # the one source without a public address
        source |= {"url": "https://"}
    assert set(source) - {"licence"} == {"title", "where", "url", "read"}
    assert source["url"].startswith("https://")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", source["read"])


@pytest.mark.parametrize(("kind", "row_id"), ROWS)
def test_assumed_figures_say_why(kind: str, row_id: str) -> None:
    for key, figure in figures(KINDS[kind][0](row_id)).items():
        assert figure.basis in ("datasheet", "measured", "assumed")
        assert figure.note or figure.basis != "assumed", key
        assert (figure.low or 0) <= figure.value <= (figure.high or math.inf), key


@pytest.mark.parametrize("name", MODELS)
def test_figure_sources_name_figures(name: str) -> None:
    model = catalog.model(name)
    for key in model.figure_sources:
        assert getattr(model, key) is not None


# --- models ---


@pytest.mark.parametrize("name", MODELS)
def test_derived_parameters_equal_the_published_total(name: str) -> None:
    model = catalog.model(name)
    derived = weights.parameter_count(model)
    if model.published_parameters is not None:
        assert derived == model.published_parameters
    else:
        rounded = model.published_parameters_rounded_b
        assert rounded is not None
        digits = 0 if rounded == int(rounded) else len(str(rounded).split(".")[1])
        assert round(derived / 1e9, digits) == rounded


def test_llama_3_8b_derives_exactly() -> None:
    assert weights.parameter_count(catalog.model("llama-3-8b")) == 8_030_261_248


@pytest.mark.parametrize("name", MODELS)
def test_heads_divide_the_width_or_head_dim_is_given(name: str) -> None:
    fields = catalog.table("models")[name]
    given = "head_dim" in fields or "kv_lora_rank" in fields
    assert given or fields["hidden_size"] % fields["num_attention_heads"] == 0
    model = catalog.model(name)
    assert model.num_attention_heads % model.num_key_value_heads == 0


@pytest.mark.parametrize("name", MODELS)
def test_groups_cover_the_layers_once(name: str) -> None:
    model = catalog.model(name)
    assert sum(group.layers for group in model.kv_layers) == model.num_hidden_layers


@pytest.mark.parametrize("name", MEASURED_MODELS)
def test_models_of_the_measurements_are_known(name: str) -> None:
    assert catalog.model(name).id in MODELS


def test_groups_follow_from_the_row() -> None:
    (group,) = catalog.model("llama-3-8b").kv_layers
    assert (group.kind, group.layers, group.kv_heads, group.key_dim, group.value_dim) == ("full", 32, 8, 128, 128)
    assert group.bound_tokens == math.inf
    assert group.fixed_bytes == 0


def test_mla_keeps_one_latent_vector() -> None:
    model = catalog.model("deepseek-v3")
    (group,) = model.kv_layers
    assert (group.kind, group.layers, group.kv_heads, group.key_dim, group.value_dim) == ("mla", 61, 1, 576, 0)
    assert (model.qk_head_dim, model.value_head_dim) == (192, 128)


def test_window_layers_are_bounded() -> None:
    full, sliding = catalog.model("gemma-3-27b").kv_layers
    assert (full.kind, full.layers, full.bound_tokens) == ("full", 10, math.inf)
    assert (sliding.kind, sliding.layers, sliding.bound_tokens) == ("sliding", 52, 1024)
    assert sliding.kv_heads * (sliding.key_dim + sliding.value_dim) == 4096


def model_fields(**changed: object) -> dict[str, object]:
    return {
        "label": "A row",
        "family": "test",
        "source": "a-source",
        "basis": "datasheet",
        "num_hidden_layers": 4,
        "hidden_size": 64,
        "num_attention_heads": 4,
    } | changed


def test_state_and_shared_layers_keep_no_kv_per_token() -> None:
    groups = [{"kind": "full", "layers": 1}, {"kind": "state", "layers": 2, "fixed_bytes": 100.0}]
    groups.append({"kind": "shared", "layers": 1})
    model = catalog.validated("model", Model, "hybrid", model_fields(kv_layers=groups))
    assert [group.kv_heads * (group.key_dim + group.value_dim) for group in model.kv_layers] == [128, 0, 0]
    assert [group.fixed_bytes for group in model.kv_layers] == [0, 100, 0]


def test_a_group_may_have_its_own_heads_and_widths() -> None:
    groups = [{"kind": "full", "layers": 1}, {"kind": "sliding", "layers": 3, "bound_tokens": 8, "kv_heads": 2}]
    model = catalog.validated("model", Model, "mixed", model_fields(kv_layers=groups, v_head_dim=8))
    assert [(group.kv_heads, group.key_dim, group.value_dim) for group in model.kv_layers] == [(4, 16, 8), (2, 16, 8)]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        pytest.param({"hidden_size": None}, "model broken: hidden_size is", id="null"),
        pytest.param({"num_attention_heads": 5}, "head_dim is not given and hidden_size 64 does not", id="width"),
        pytest.param({"num_layers": 4}, "model broken: num_layers is refused", id="unknown key"),
        pytest.param({"kv_layers": [{"kind": "sliding", "layers": 4}]}, "bound_tokens belongs to", id="no bound"),
    ],
)
def test_a_broken_model_row_is_refused_in_one_sentence(changed: dict[str, object], sentence: str) -> None:
    with pytest.raises(CatalogError, match=re.escape(sentence)) as error:
        catalog.validated("model", Model, "broken", model_fields(**changed))
    assert "\n" not in str(error.value)


def test_a_missing_figure_names_the_row_and_the_key() -> None:
    fields = dict(catalog.table("gpus")["l40s"])
    del fields["hbm_gb_per_s"]
    with pytest.raises(CatalogError, match=r"^gpu broken: hbm_gb_per_s is missing$"):
        catalog.validated("gpu", Gpu, "broken", fields)
    with pytest.raises(CatalogError, match=r"^gpu a100-sxm4-80gb: fp8_dense_tflop_per_s is missing$"):
        _ = catalog.gpu("a100-sxm4-80gb").fp8_peak_flop_per_s
    with pytest.raises(CatalogError, match=r"^model small: vocab_size is missing$"):
        catalog.validated("model", Model, "small", model_fields()).need("vocab_size")


def test_a_figure_without_a_source_is_refused() -> None:
    fields = dict(catalog.table("gpus")["l40s"]) | {"memory_gb": {"value": 48, "basis": "datasheet"}}
    with pytest.raises(CatalogError, match=re.escape("gpu broken: memory_gb.source is missing")):
        catalog.validated("gpu", Gpu, "broken", fields)


# --- unknown names ---


def test_an_unknown_id_gets_one_sentence_with_the_nearest() -> None:
    with pytest.raises(CatalogError) as error:
        catalog.gpu("a100")
    assert str(error.value) == ("gpu: unknown id 'a100'; nearest: a100-sxm4-80gb, a100-sxm4-40gb, a100-pcie-80gb")
    with pytest.raises(ValueError, match=r"^model: unknown id 'lama-3-8b'; nearest: llama-3-8b, "):
        catalog.model("lama-3-8b")
    with pytest.raises(CatalogError, match=r"^link: unknown id ''; nearest: "):
        catalog.link("")
    with pytest.raises(CatalogError, match=r"^source: unknown id 'nowhere'$"):
        catalog.source("nowhere")


# --- GPUs and links ---


@pytest.mark.parametrize("name", MEASURED_HARDWARE)
def test_hardware_of_the_measurements_keeps_its_figures(name: str) -> None:
    gpu = catalog.gpu(name)
    nvlink = gpu.nvlink_one_way_gb_per_s
    assert (
        gpu.dense_16bit_tflop_per_s.value,
        gpu.hbm_gb_per_s.value,
        gpu.memory_gb.value,
        catalog.link(gpu.link).link_gb_per_s.value,
        nvlink.value if nvlink else None,
    ) == MEASURED_HARDWARE[name]


@pytest.mark.parametrize("name", GPUS)
def test_peaks_are_dense(name: str) -> None:
    """A peak with 2:4 sparsity is twice as high: H100's would put its ridge at 590, L40S's at 848."""
    gpu = catalog.gpu(name)
    assert 30 < gpu.peak_flop_per_s / gpu.hbm_bytes_per_s < 430
    if gpu.fp8_dense_tflop_per_s:
        assert gpu.fp8_peak_flop_per_s / gpu.peak_flop_per_s == pytest.approx(2, rel=0.015)


@pytest.mark.parametrize("name", GPUS)
def test_memory_is_the_printed_size_less_a_little(name: str) -> None:
    gpu = catalog.gpu(name)
    assert 0.9 * gpu.memory_gb.value * GIB < gpu.memory_bytes <= gpu.memory_gb.value * GIB
    assert gpu.link in LINKS


def test_base_units() -> None:
    gpu, link = catalog.gpu("a100-sxm4-80gb"), catalog.link("pcie4-x16")
    assert gpu.peak_flop_per_s == 312 * TFLOP
    assert gpu.hbm_bytes_per_s == 2039 * GB
    assert gpu.memory_bytes == 79.15 * GIB
    assert gpu.nvlink_bytes_per_s == 300 * GB
    assert catalog.gpu("l40s").nvlink_bytes_per_s is None
    assert catalog.gpu("h200-sxm-141gb").memory_bytes == 141 * GIB
    assert catalog.gpu("h100-sxm5-80gb").fp8_peak_flop_per_s == 1979 * TFLOP
    assert (link.link_bytes_per_s, link.h2d_bytes_per_s, link.d2h_bytes_per_s) == (31.5 * GB, 25 * GB, 25 * GB)
    assert (link.per_copy_h2d_s, link.per_copy_d2h_s) == (2.0 * US, 3.1 * US)


def test_gpus_without_bf16_say_fp16() -> None:
    without = {name for name in GPUS if catalog.gpu(name).sixteen_bit_dtype == "fp16"}
    assert without == {"t4", "v100-sxm2-16gb", "v100-sxm2-32gb"}


@pytest.mark.parametrize("name", LINKS)
def test_copies_are_slower_than_their_link(name: str) -> None:
    link = catalog.link(name)
    for figure in (link.h2d_gb_per_s, link.d2h_gb_per_s):
        assert 0.35 * link.link_gb_per_s.value < figure.value < link.link_gb_per_s.value
        assert (figure.high or 0) < link.link_gb_per_s.value
    assert 0.5 * US < min(link.per_copy_h2d_s, link.per_copy_d2h_s) < 10 * US


@pytest.mark.parametrize("generation", [3, 4, 5, 6])
def test_eight_lanes_are_half_of_sixteen(generation: int) -> None:
    wide, narrow = catalog.link(f"pcie{generation}-x16"), catalog.link(f"pcie{generation}-x8")
    assert narrow.link_bytes_per_s == pytest.approx(wide.link_bytes_per_s / 2, rel=0.001)
    assert narrow.h2d_bytes_per_s == wide.h2d_bytes_per_s / 2
    assert narrow.d2h_bytes_per_s == wide.d2h_bytes_per_s / 2
