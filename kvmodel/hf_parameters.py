"""Parameters of a config.json and their bytes, or why they are not counted: the KV cache is known without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvmodel.hf_attention import Attention
from kvmodel.hf_fields import ConfigRefused, Fields
from kvmodel.hf_layers import Layer
from kvmodel.hf_quantization import WeightBytes, weight_bytes
from kvmodel.hf_weights import Parameters, checked, parameters
from kvmodel.words import say

OTHER_PARTS = (  # sections of what a model has beside its language model
    "vision_config", "audio_config", "visual", "vit_config", "talker_config", "code2wav_config", "token2wav_config",
)  # fmt: skip


@dataclass(frozen=True)
class Counted:
    """Both None where they are not counted; `notes` say what a reader should know of them, a sentence each."""

    parameters: Parameters | None
    stored: WeightBytes | None
    notes: tuple[str, ...]


def count(config: Mapping[str, Any], fields: Fields, own: Attention, layers: list[Layer]) -> Counted:
    try:
        counted = parameters(fields, own, layers)
        stored = weight_bytes(config, fields, counted) if counted else None
    except ConfigRefused as error:
        return Counted(None, None, (say("parameters are not counted: {reason}", reason=error),))
    if counted is None:
        short = say("parameters are not counted: the file or what is known of its class is too short for them")
        return Counted(None, None, (short,))
    notes = []
    if not checked(fields.model_type):
        notes.append(
            say(
                "parameters are an estimate: class {model_type} is counted in the plain form, unchecked",
                model_type=fields.model_type,
            )
        )
    others = [name for name in OTHER_PARTS if isinstance(config.get(name), dict)]
    if others:
        notes.append(say("weights are the language model's alone, without {parts}", parts=", ".join(others)))
    return Counted(counted, stored, tuple(notes))
