"""A Hugging Face config.json -> the catalog's model row, to the byte, or a refusal that says why.

Nothing of the file is run and nothing is fetched. What the file leaves open is either derived by the rules of the
architecture, shown under `assumed`, or refused; a class's default dimensions are taken only with `assume_defaults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import KvLayers, Model, ParameterCounts, custom_model
from kvmodel.errors import unusable
from kvmodel.hf.attention import Attention, attention
from kvmodel.hf.doubts import doubts
from kvmodel.hf.fields import ConfigRefused, Fields, language_section, refusal, require_decoder
from kvmodel.hf.json_text import json_object, reason
from kvmodel.hf.kinds import DRAFTS
from kvmodel.hf.layers import Layer, kv_groups, read_layers
from kvmodel.hf.parameters import VOCABULARY, Parameters, has_encoder
from kvmodel.hf.weight_bytes import WeightBytes, asks_for_narrow_kv, count
from kvmodel.limits import whole
from kvmodel.units import MIB
from kvmodel.words import say

LARGEST_FILE_BYTES = 4 * MIB
MOST_DRAFTS = 8
STATE_DTYPES = {"auto": 0, "16-bit": 2, "fp32": 4}  # bytes of a value
LONGEST_CONTEXT = (
    "max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "model_max_length",
    "max_target_positions", "n_ctx", "context_length",
)  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """A model row from a config.json, what it rests on, and its parameters (None where the file is too short for them).

    `used` has the keys that were read, by path; `assumed` those that the class filled in.
    """

    model: Model
    model_type: str
    section: str
    used: dict[str, Any]
    assumed: dict[str, Any]
    notes: tuple[str, ...]
    parameters: Parameters | None
    fixed_bytes_transformers: float

    @property
    def text(self) -> str:
        """The row as it goes into a link or a Case: see :mod:`kvmodel.catalog.custom_model`."""
        return self.model.id


def read_file(path: str, *, assume_defaults: bool = False, draft_layers: int = 0, state_dtype: str = "auto") -> Reading:
    """Raises ConfigRefused where the file cannot be opened, is no JSON object or is refused by :func:`read`."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigRefused(str(unusable("config", path, error))) from None
    name = Path(path).stem
    options: dict[str, Any] = {"assume_defaults": assume_defaults, "state_dtype": state_dtype}
    return read_text(content, name=name, draft_layers=draft_layers, **options)


def read_text(
    content: bytes | str,
    *,
    name: str = "config",
    assume_defaults: bool = False,
    draft_layers: int = 0,
    state_dtype: str = "auto",
) -> Reading:
    """As :func:`read`, of the text of a config.json of at most 4 MiB."""
    if len(content) > LARGEST_FILE_BYTES:
        raise ConfigRefused(say("config: more than 4 MiB given; allowed: a model's config.json"))
    config = json_object(content)
    try:
        return read(
            config, name=name, assume_defaults=assume_defaults, draft_layers=draft_layers, state_dtype=state_dtype
        )
    except RecursionError as error:  # a value that is to be shown
        raise ConfigRefused(say("config: no JSON: {reason}", reason=reason(error))) from None


def read(
    config: Mapping[str, Any],
    *,
    name: str = "config",
    assume_defaults: bool = False,
    draft_layers: int = 0,
    state_dtype: str = "auto",
) -> Reading:
    """The row of a config.json.

    Parameters
    ----------
    name : what to call the model where the file has no `_name_or_path`.
    assume_defaults : take the class's default for a dimension that is not in the file.
    state_dtype : "16-bit" or "fp32" where a flag of the engine says how wide recurrent states are kept, else "auto".
    draft_layers : layers of a draft (EAGLE, MTP) that keep KV beside the model's own, each like a full layer.

    Raises
    ------
    ConfigRefused : an unknown kind of attention, a dimension that is absent or ambiguous, a value of a wrong type.
    """
    if not 0 <= draft_layers <= MOST_DRAFTS:
        raise refusal("draft_layers", draft_layers, whole(0, MOST_DRAFTS).allowed)
    fields = language_section(config, assume_defaults=assume_defaults)
    require_decoder(fields)
    shape = attention(fields)
    layers = [states_in(layer, STATE_DTYPES[state_dtype]) for layer in read_layers(fields, shape)]
    groups = kv_groups(fields, layers, latent=shape.latent, drafts=draft_layers)
    weights = count(config, fields, shape, layers)
    row = model_row(fields, shape, groups, weights.parameters, weights.sizes, label_of(config, name))
    text = custom_model.as_text(row)
    return Reading(
        model=catalog.model(text),
        model_type=fields.model_type,
        section=fields.path.rstrip(".") or "top level",
        used=dict(sorted(fields.used.items())),
        assumed=dict(sorted(fields.assumed.items())),
        notes=(
            *notes(fields, shape, layers, draft_layers),
            *weights.notes,
            *doubts(fields, weights.parameters, label_of(config, name)),
        ),
        parameters=weights.parameters,
        fixed_bytes_transformers=float(sum(layer.mixer.transformers_bytes for layer in layers if layer.mixer)),
    )


def states_in(layer: Layer, value_bytes: int) -> Layer:
    """A layer whose recurrent states take so many bytes a value; 0 leaves them as they were read."""
    if not (value_bytes and layer.mixer):
        return layer
    return replace(layer, mixer=replace(layer.mixer, said_bytes=value_bytes))


def label_of(config: Mapping[str, Any], name: str) -> str:
    path = config.get("_name_or_path")
    return path.rsplit("/", 1)[-1] if isinstance(path, str) and path else name


def model_row(
    fields: Fields,
    shape: Attention,
    groups: tuple[KvLayers, ...],
    parameters: Parameters | None,
    sizes: WeightBytes | None,
    label: str,
) -> Model:
    """Raises ConfigRefused, CatalogError where the numbers do not make a model."""
    heads = shape.full
    latent_value = fields.whole("v_head_dim") if shape.latent else None
    layer_heads = [entry for entry in shape.by_layer or () if entry is not None]
    if layer_heads:
        heads = max(layer_heads, key=lambda entry: entry.kv_heads)
    if not groups:
        raise ConfigRefused(say("layers: none of the file's layers is known to keep anything of a token"))
    rows: dict[str, Any] = {
        "label": label,
        "family": "custom",
        "source": "reader",
        "basis": "assumed",
        "num_hidden_layers": shape.num_hidden_layers,
        "hidden_size": shape.hidden_size,
        "num_attention_heads": heads.query_heads,
        "num_key_value_heads": heads.query_heads if shape.latent else heads.kv_heads,
        "head_dim": shape.head_dim if shape.latent else heads.key_dim,
        "v_head_dim": latent_value or (heads.value_dim if heads.value_dim != heads.key_dim else None) or None,
        "vocab_size": fields.whole(*VOCABULARY),
        "max_position_embeddings": fields.whole(*LONGEST_CONTEXT, most=10**9),
        "kv_layers": [vars(group) for group in groups],
    }
    if parameters and sizes:
        rows |= {
            "vocab_size": rows["vocab_size"] or fields.assumed.get(fields.path + "vocab_size"),
            "num_experts": parameters.experts,
            "num_experts_per_tok": parameters.experts_per_token,
            "moe_intermediate_size": parameters.expert_width or None,
            "weight_bytes_per_parameter": sizes.per_layer_parameter,
            "expert_weight_bytes_per_parameter": sizes.per_expert_parameter if parameters.experts else None,
            "counts": vars(
                ParameterCounts(
                    layer_matrices=parameters.layer_matrices,
                    expert=parameters.expert,
                    other=parameters.embedding + parameters.head + parameters.small,
                    mlp_width=parameters.mlp_width,
                    weight_bytes=sizes.total,
                )
            ),
        }
    return catalog.validated("model", Model, "config", rows)


def notes(fields: Fields, shape: Attention, layers: list[Layer], draft_layers: int) -> tuple[str, ...]:
    """What a reader should know of the row beside its numbers, a sentence each."""
    sentences = []
    crossing = [layer for layer in layers if layer.kind == "cross"]
    if crossing and crossing[0].heads:
        heads = crossing[0].heads
        per_layer = 2 * heads.kv_heads * (heads.key_dim + heads.value_dim)
        sentences.append(
            say(
                "{layers} cross-attention layers keep {size:,} bytes a layer and image token in bf16, "
                "and nothing of the text",
                layers=len(crossing),
                size=per_layer,
            )
        )
    if has_encoder(fields):
        per_token = shape.num_hidden_layers * 2 * shape.full.kv_heads * (shape.full.key_dim + shape.full.value_dim)
        sentences.append(
            say(
                "cross-attention keeps {size:,} bytes more in bf16 for each token of the encoder's input",
                size=per_token,
            )
        )
    if fields.whole(*DRAFTS, least=0, most=100) and not draft_layers:
        sentences.append(say("the file's draft layers (MTP) are not counted; --draft-layers counts them"))
    if draft_layers:
        sentences.append(say("{count} draft layers are counted like the model's own full layers", count=draft_layers))
    if any(layer.index_dim for layer in layers):
        sentences.append(
            say("index keys are counted at the cache's width; engines keep 132 bytes each under a 16-bit cache too")
        )
    marks = fields.part("sparse_attention_config").numbers("sparse_attention_freq") or []
    unread = sum(map(bool, marks)) or sum(layer.kind == "indexed" and not layer.index_dim for layer in layers)
    if unread:
        sentences.append(
            say(
                "sparse attention keeps an index key of each token in {layers} layers, which is not counted",
                layers=unread,
            )
        )
    if asks_for_narrow_kv(fields.outer, fields):
        sentences.append(
            say("the checkpoint has scales for 8-bit KV; an engine may then choose it: kv_dtype says which")
        )
    if any(layer.mixer for layer in layers):
        sentences.append(
            say(
                "states are counted in fp32 unless the file says how wide, with kernel - 1 columns of a convolution; "
                "vLLM keeps them in 16 bits then: state_dtype says which"
            )
        )
    return tuple(sentences)


def with_label(reading: Reading, label: str) -> Reading:
    """The same reading under another name. Raises CatalogError for a name without letters or digits."""
    text = custom_model.as_text(replace(reading.model, label=label))
    return replace(reading, model=catalog.model(text))
