"""The catalog: models, GPUs, links and their sources, looked up by id or alias in the TOML files of data/.

A file is read once; a row is parsed when it is asked for, so a single answer pays for its rows only. The catalog's own
rows are taken as they are: the tests validate all of them.
"""

import functools
import re
import tomllib
from typing import Any, TypeVar, cast

from kvmodel.catalog import custom_model
from kvmodel.catalog.rows import Gpu, KvLayers, Link, Model, SourcedNumber, filled
from kvmodel.errors import CatalogError
from kvmodel.files import DATA
from kvmodel.words import say

# What model names carry beyond the model: tuning, format, quantisation.
TAIL = re.compile(
    r"[-_.](?:instruct|chat|it|hf|base|preview|latest|awq|gptq|gguf|bnb|nvfp4|mxfp4|bf16|fp16|dynamic|turbo"
    r"|fp8(?:-kv)?|w\dA\d+|int[48]|\dbit|g\d+|quantized)$",
    re.IGNORECASE,
)

AnyRow = TypeVar("AnyRow", Model, Gpu, Link)
ROW_CLASSES = {"model": Model, "gpu": Gpu, "link": Link}


def _text(name: str) -> str:
    return (DATA / f"{name}.toml").read_text(encoding="utf-8")


LONGEST_NAME = 40  # of an unknown id that an error repeats


@functools.cache
def table(name: str) -> dict[str, Any]:
    """data/<name>.toml as it stands. The dictionary is shared: read it, do not change it."""
    return tomllib.loads(_text(name))


@functools.cache
def _rows(kind: str) -> dict[str, str]:
    """TOML text of each row by id. Parsing one row takes 0.2 ms, the three files 30 ms: a third of an answer's time."""
    parts = re.split(r"^(?=\[)", _text(kind + "s"), flags=re.MULTILINE)[1:]  # a "[" in the first column opens a row
    return {part[1 : part.index("]")].strip('"'): part for part in parts}


@functools.cache
def _names(kind: str) -> dict[str, str]:
    """Id of every id and alias of a kind, in lower case."""
    names = {row_id.lower(): row_id for row_id in _rows(kind)}
    for row_id, part in _rows(kind).items():
        line = re.search(r"^aliases = .*$", part, flags=re.MULTILINE)
        names |= {alias.lower(): row_id for alias in re.findall(r'"([^"]+)"', line.group() if line else "")}
    return names


def id_of(kind: str, name: str) -> str:
    """The permanent id behind an id or alias of kind "model", "gpu" or "link". Raises CatalogError.

    A model may also be a text of :mod:`kvmodel.catalog.custom_model`: then that text is its id.
    """
    if kind == "model" and custom_model.is_text(name):
        return model(name).id
    names = _names(kind)
    row_id = names.get(name.strip().lower())
    if row_id is None:
        nearest = ", ".join(_nearest(name[:LONGEST_NAME].lower(), names))
        values = {"kind": kind, "name": name[:LONGEST_NAME], "nearest": nearest}
        raise CatalogError(say("{kind}: unknown id {name!r}; nearest: {nearest}", **values))
    return row_id


def _find(kind: str, name: str) -> tuple[str, dict[str, Any]]:
    row_id = id_of(kind, name)
    return row_id, tomllib.loads(_rows(kind)[row_id])[row_id]


def _nearest(name: str, names: dict[str, str], count: int = 3) -> list[str]:
    import difflib  # only needed here, after an error

    containing = [row_id for id_or_alias, row_id in names.items() if name and name in id_or_alias]
    similar = [names[id_or_alias] for id_or_alias in difflib.get_close_matches(name, names, n=3 * count, cutoff=0.0)]
    return list(dict.fromkeys(containing + similar))[:count]


def validated(kind: str, row_class: type[AnyRow], row_id: str, fields: dict[str, Any]) -> AnyRow:
    """A row from fields nobody has checked yet. Raises CatalogError, one sentence that names the row and the key."""
    from pydantic import ValidationError  # building a validator costs more than a whole answer

    try:
        row = {"id": row_id, **(filled(fields) if row_class is Model else fields)}
        return cast(AnyRow, _validator(kind).validate_python(row))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        values = {"kind": kind, "name": row_id, "key": key or "row"}
        if first["type"] == "missing":
            raise CatalogError(say("{kind} {name}: {key} is missing", **values)) from None
        raise CatalogError(say("{kind} {name}: {key} is refused: {reason}", **values, reason=first["msg"])) from None
    except ValueError as error:
        values = {"kind": kind, "name": row_id, "key": "row"}
        raise CatalogError(say("{kind} {name}: {key} is refused: {reason}", **values, reason=error)) from None


@functools.cache
def _validator(kind: str) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(ROW_CLASSES[kind])


CUSTOM_MODELS_KEPT = 256  # texts come from outside: what is kept of them is bounded


def model(name: str) -> Model:
    """The model with this id or alias, in any case, or that a text of :mod:`kvmodel.catalog.custom_model` describes.

    Raises CatalogError.
    """
    return _custom_model(name.strip().lower()) if custom_model.is_text(name) else _catalog_model(name)


@functools.lru_cache(CUSTOM_MODELS_KEPT)
def _custom_model(text: str) -> Model:
    return custom_model.from_text(text)


@functools.cache
def _catalog_model(name: str) -> Model:
    row_id, fields = _find("model", name)
    row = filled(fields)
    groups = tuple(KvLayers(**group) for group in row["kv_layers"])
    return Model(**row | {"id": row_id, "aliases": tuple(row.get("aliases", ())), "kv_layers": groups})


@functools.cache
def gpu(name: str) -> Gpu:
    """The GPU with this id or alias, in any case. Raises CatalogError."""
    row_id, fields = _find("gpu", name)
    return Gpu(id=row_id, **_with_sources(fields))


@functools.cache
def link(name: str) -> Link:
    """The link with this id or alias, in any case. Raises CatalogError."""
    row_id, fields = _find("link", name)
    return Link(id=row_id, **_with_sources(fields))


def _with_sources(fields: dict[str, Any]) -> dict[str, Any]:
    aliases = {"aliases": tuple(fields.get("aliases", ()))}
    return {
        key: SourcedNumber(**value) if isinstance(value, dict) else value for key, value in fields.items()
    } | aliases


def model_ids() -> tuple[str, ...]:
    """Permanent ids, in the order of the file."""
    return tuple(_rows("model"))


def gpu_ids() -> tuple[str, ...]:
    """Permanent ids, in the order of the file."""
    return tuple(_rows("gpu"))


def link_ids() -> tuple[str, ...]:
    """Permanent ids, in the order of the file."""
    return tuple(_rows("link"))


def source(source_id: str) -> dict[str, str]:
    """Title, place, address, day read and, for data carried here, licence. Raises CatalogError."""
    sources = table("sources")
    if source_id not in sources:
        raise CatalogError(say("source: unknown id {given!r}", given=source_id))
    return {key: str(value) for key, value in sources[source_id].items()}


def model_id(name: str) -> str | None:
    """The catalog's id of a served model's name, or None.

    >>> model_id("meta-llama/Meta-Llama-3-8B-Instruct"), model_id("acme/secret-7b")
    ('llama-3-8b', None)
    """
    short = name.rstrip("/").rsplit("/", 1)[-1].lower().removeprefix("meta-")
    while True:
        try:
            return id_of("model", short)
        except CatalogError:
            shorter = TAIL.sub("", short)
        if shorter == short:
            return None
        short = shorter
