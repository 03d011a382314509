"""What a command was given, as a Case and the question's own inputs; a config.json stands in place of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case, case_from
from kvmodel.inputs.questions import CONFIG, INPUTS

if TYPE_CHECKING:
    from kvmodel.hf.config_file import Reading


def read_choices(choices: Mapping[str, Any], own_inputs: tuple[str, ...]) -> tuple[Case, dict[str, Any]]:
    """The Case and the question's own inputs from what was given. Raises CaseError, CatalogError: one sentence."""
    choices, reading = with_config(choices) if "config" in own_inputs else (choices, None)
    case = case_from({field: value for field, value in choices.items() if field not in own_inputs})
    values = {
        field: INPUTS[field].read(field, choices[field]) if field in choices else INPUTS[field].default
        for field in own_inputs
    }
    return case, {field: value for field, value in values.items() if field not in CONFIG} | (
        {"reading": reading} if "config" in own_inputs else {}
    )


def with_config(choices: Mapping[str, Any]) -> tuple[Mapping[str, Any], Reading | None]:
    """Inputs with the model that `config` names as a text in place of the file, and how that was read.

    Raises CaseError, ConfigRefused.
    """
    config_inputs = {field: INPUTS[field].read(field, choices[field]) for field in CONFIG if field in choices}
    if "config" not in config_inputs:
        for field in (field for field, value in config_inputs.items() if value):
            raise CaseError(f"{field}: given without config; allowed: beside a model's config.json")
        return choices, None
    if "model" in choices:
        raise CaseError("config: given with a model; allowed: one of the two")
    from kvmodel.hf import config_file  # for a file alone: it takes as long as the rest of an answer

    options = {field: config_inputs[field] for field in CONFIG[1:] if field in config_inputs}
    reading = config_file.read_file(str(config_inputs["config"]), **options)
    rest = {field: value for field, value in choices.items() if field not in CONFIG}
    return rest | {"model": reading.text}, reading
