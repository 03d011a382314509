"""What a config.json says, key by key: each value checked, each key that is used noted, each default shown.

A key may be given, null or absent, and these differ: Mistral's class fills an absent `sliding_window` with 4,096, while
null means none. Dimensions are never filled in without the reader's word (`assume_defaults`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvmodel import catalog
from kvmodel.errors import LONGEST_ECHO, CatalogError, bad_value
from kvmodel.files import DATA
from kvmodel.limits import switch, whole
from kvmodel.words import say

NAME = re.compile(r"[\w. +-]{1,60}")  # of a class
MOST = 10_000_000  # of any dimension
WIDEST_HEAD = 8192  # values: the widest that is published has 576
MOST_OF_NAME = (  # of dimensions that never come near MOST, by parts of their keys
    (
        re.compile(
            "head_?dim|d_head|head_size|head_width|kv_channels|lora_rank|dt_rank|step_rank|state_size|d_state|d_kv"
        ),
        WIDEST_HEAD,
    ),
    (re.compile("heads|n_groups|ngroups|_groups"), 8192),  # the most that is published has 256
    (re.compile("kernel|d_conv|conv_L_cache|conv1d_width|expand"), 1024),  # the longest that is published has 4
)
LANGUAGE_SECTIONS = (
    "thinker_config", "text_config", "language_config", "llm_config", "llm_cfg", "language_model", "text_model", "llm",
)  # fmt: skip


class ConfigRefused(CatalogError):
    """A config.json that cannot be read to the byte; the message is one sentence that says why."""


@functools.cache
def class_defaults() -> dict[str, dict[str, Any]]:
    """Defaults of each configuration class by `model_type`, as in transformers 5.24; `text` names a nested class."""
    text = (DATA / "hf_defaults.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@dataclass
class Fields:
    """One section of a config.json. `used` and `assumed` fill as keys are read."""

    section: Mapping[str, Any]
    model_type: str
    path: str = ""
    assume_defaults: bool = False
    used: dict[str, Any] = field(default_factory=dict)
    assumed: dict[str, Any] = field(default_factory=dict)
    outer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        return class_defaults().get(self.model_type, {})

    def part(self, name: str) -> Fields:
        """A section inside this one, empty where it is absent or null; what it uses is noted here."""
        inner = self.section.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise refusal(self.path + name, inner, say("an object"))
        return Fields(inner or {}, "", f"{self.path}{name}.", self.assume_defaults, self.used, self.assumed)

    def has(self, *names: str) -> bool:
        """Whether one of these keys is there and not null."""
        return any(self.section.get(name) is not None for name in names)

    def key_and_value(self, *names: str) -> tuple[str, Any] | None:
        """The first of these keys that is there and not null, with its value, unchecked."""
        for name in names:
            if self.section.get(name) is not None:
                return name, self.section[name]
        return None

    def note(self, name: str, value: Any) -> Any:
        self.used[self.path + name] = value
        return value

    def whole(self, *names: str, least: int = 1, most: int = MOST) -> int | None:
        """A whole number the file gives, or None. Raises ConfigRefused."""
        entry = self.key_and_value(*names)
        return None if entry is None else int(self.note(entry[0], self._whole(*entry, least, most)))

    def _whole(self, name: str, value: Any, least: int, most: int) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        usual = next((most_of_name for named, most_of_name in MOST_OF_NAME if named.search(name)), MOST)
        possible = whole(least, min(most, usual))
        try:
            return int(possible.parsed(number, strict=True))
        except ValueError:
            raise refusal(self.path + name, value, possible.allowed) from None

    def dimension(self, what: str, *names: str, most: int = MOST) -> int:
        """A size without which nothing can be said. Raises ConfigRefused where the file does not give it."""
        value = self.optional_dimension(*names, most=most)
        if value is None:
            raise ConfigRefused(say("{field}: {what} is not in the file", field=self.path + names[0], what=say(what)))
        return value

    def optional_dimension(self, *names: str, most: int = MOST) -> int | None:
        """A size that the file gives or leaves to be derived.

        Raises ConfigRefused where the class would fill in a number of its own and the reader has not accepted that.
        """
        value = self.whole(*names, most=most)
        if value is not None:
            return value
        defaults = self.defaults
        name = next((name for name in names if isinstance(defaults.get(name), int) and name not in self.section), None)
        if name is None:
            return None
        default = int(defaults[name])
        if not self.assume_defaults:
            raise ConfigRefused(
                say(
                    "{field}: not in the file; the class {model_type} would take {default:,}, "
                    "which --assume-defaults accepts",
                    field=self.path + name,
                    model_type=self.model_type,
                    default=default,
                )
            )
        return int(self.assume(name, default))

    def size(self, *names: str) -> int | None:
        """A size that only the number of parameters needs: absent, it is the class's own default, which is noted."""
        value = self.whole(*names, least=0)
        if value is None and not any(name in self.section and name in self.defaults for name in names):
            default = next((self.defaults[name] for name in names if isinstance(self.defaults.get(name), int)), None)
            return None if default is None else int(self.assume(names[0], default))
        return value

    def choice(self, *names: str) -> Any:
        """A switch or an optional bound: as the file has it, null too, else the class's own default, which is noted."""
        for name in names:
            if name in self.section:
                return self.note(name, self.section[name])
        for name in names:
            if self.defaults.get(name) is not None:
                return self.assume(name, self.defaults[name])
        return None

    def flag(self, *names: str) -> bool:
        """A yes or no of the file or of the class; no where neither says. Raises ConfigRefused."""
        value = self.choice(*names)
        if value is None or isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        raise refusal(self.path + names[0], value, switch().allowed)

    def bound(self, *names: str) -> int | None:
        """A number of tokens, or None where there is no bound (absent, null, false, 0 or -1)."""
        value = self.choice(*names)
        if value is None or value is False or value in (0, -1):
            return None
        return self._whole(names[0], value, 1, 10**9)

    def entries(self, *names: str) -> list[Any] | None:
        """A list the file gives, or None. Raises ConfigRefused."""
        entry = self.key_and_value(*names)
        if entry is None:
            return None
        name, value = entry
        if not isinstance(value, list) or len(value) > MOST:
            raise refusal(self.path + name, value, say("a list"))
        short = value if len(value) <= 8 else say("{count} entries", count=len(value))
        self.note(name, short)
        return value

    def numbers(self, *names: str, least: int = 0) -> list[int] | None:
        """A list of whole numbers the file gives, or None. Raises ConfigRefused."""
        entry = self.entries(*names)
        if entry is None or all(type(value) is int and least <= value <= MOST for value in entry):
            return entry
        return [self._whole(names[0], value, least, MOST) for value in entry]

    def tied(self) -> bool:
        """Whether head and embedding share weights: the language section's word, else the file's, else the class's."""
        if "tie_word_embeddings" not in self.section and isinstance(self.outer.get("tie_word_embeddings"), bool):
            self.used["tie_word_embeddings"] = self.outer["tie_word_embeddings"]
            return bool(self.outer["tie_word_embeddings"])
        return self.flag("tie_word_embeddings")

    def assume(self, name: str, value: Any) -> Any:
        """Note what the class fills in, by the key that the file could have had."""
        self.assumed[self.path + name] = value
        return value


def refusal(name: str, value: object, allowed: str) -> ConfigRefused:
    """One sentence: key, what was given, what is allowed."""
    return ConfigRefused(str(bad_value(name, value, allowed)))


def wrong_length(name: str, entries: int, layers: int) -> ConfigRefused:
    """A list by layer that is too short or too long."""
    texts = {"field": name, "entries": entries, "layers": layers}
    return ConfigRefused(say("{field}: {entries} entries given for {layers} layers", **texts))


def language_section(config: Mapping[str, Any], *, assume_defaults: bool = False) -> Fields:
    """The part of a config.json that describes the language model: a nested one goes before the top level,

    which in multimodal files may describe the vision tower. Raises ConfigRefused where the file names no class.
    """
    section, path, model_type = config, "", class_of(config, "")
    while name := next((name for name in LANGUAGE_SECTIONS if section.get(name) is not None), None):
        inner = section[name]
        if not isinstance(inner, dict):
            raise refusal(path + name, inner, say("an object"))
        path += name + "."
        nested = class_defaults().get(model_type, {}).get("text", model_type)
        section, model_type = inner, class_of(inner, nested)
    if not model_type:
        raise ConfigRefused(
            say("model_type: not in the file, nor are architectures; allowed: a config.json that names one")
        )
    model_type = class_defaults().get(model_type, {}).get("text", model_type)
    return Fields(section, model_type, path, assume_defaults, outer=config)


def require_decoder(fields: Fields) -> None:
    """Raises ConfigRefused for an encoder, of text or images: it sees its input at once and keeps none of it."""
    is_encoder = fields.model_type in catalog.table("hf_classes")["encoders"]
    of_images = fields.has("patch_size", "image_size") and not fields.has("vocab_size")
    if (is_encoder or of_images) and fields.section.get("is_decoder") is not True:
        raise ConfigRefused(
            say(
                "{key}: {name} is an encoder, which keeps nothing from one token to the next; allowed: a model that "
                "generates text",
                key=fields.path + "model_type",
                name=fields.model_type[:LONGEST_ECHO],
            )
        )


def class_of(section: Mapping[str, Any], outer: str) -> str:
    """`model_type`, else that of the section around, else the class that `architectures` is named after."""
    model_type = section.get("model_type")
    if model_type is not None and not (isinstance(model_type, str) and NAME.fullmatch(model_type or "-")):
        raise refusal("model_type", model_type, say("a name"))
    if model_type:
        return model_type
    architectures = section.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        stem = architectures[0].split("For")[0].removesuffix("LMHeadModel").removesuffix("Model").lower()
        classes = {name.replace("_", "").replace("-", ""): name for name in class_defaults()}
        return outer or classes.get(stem, stem if NAME.fullmatch(stem) else "")
    return outer
