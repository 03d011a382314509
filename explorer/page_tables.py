"""Tables of a page, to read or to sort, and all of them taken along as files from one menu."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import streamlit as st

from explorer import prose
from kvmodel.report import table_files
from kvmodel.units import NONE, format_count, significant

DIGITS = 4  # of a number in a table to sort
Column = Sequence[float | str | None]


@dataclass(frozen=True)
class Table:
    """What a page shows; `name` is the stem of its files, `foreign` says that cells hold what a visitor gave."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    foreign: bool = False


_tables: ContextVar[list[Table] | None] = ContextVar("tables", default=None)


def begin() -> None:
    """No table is drawn yet in this run."""
    _tables.set([])


def show(table: Table) -> None:
    """Draw a table to read, in a frame of its own where it is too wide, and keep it for the menu of this run."""
    st.markdown(table_files.on_a_page(table.header, table.rows))
    note(table)


def note(table: Table) -> None:
    tables = _tables.get()
    if tables is not None:
        tables.append(table)


def show_sortable(name: str, columns: Mapping[str, Column], alt: str) -> None:
    """Draw a table to sort and search, and keep it for the menu of this run."""
    sortable(columns, alt)
    rows = zip(*(map(cell, column) for column in columns.values()), strict=True)
    note(Table(name, list(columns), list(map(list, rows))))


def sortable(columns: Mapping[str, Column], alt: str) -> None:
    """A table to sort and search; `alt` names it to a screen reader. Streamlit imports pandas for its first one."""
    values = {name: list(map(rounded, column)) for name, column in columns.items()}
    numbers = {name: number_format(column) for name, column in values.items() if holds_numbers(column)}
    config = {name: st.column_config.NumberColumn(format=form) for name, form in numbers.items()}
    st.dataframe(values, hide_index=True, column_config=config, placeholder=NONE, alt=alt)


def rounded(value: float | str | None) -> float | str | None:
    """A whole number with all its digits, another one with those that a chart shows."""
    if value is None or isinstance(value, str) or float(value).is_integer():
        return value
    return float(f"{value:.{DIGITS}g}")


def holds_numbers(column: Column) -> bool:
    return not any(isinstance(value, str) for value in column)


def number_format(column: Column) -> str:
    """With marks of thousands, which the browser writes with three decimals at most, so not for small numbers."""
    small = any(value is not None and 0 < abs(float(value)) < 1 for value in column)
    return f"%.{DIGITS}g" if small else "localized"


def cell(value: float | str | None) -> str:
    """A value of a table to sort as its files have it."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return prose.escaped(value)
    return format_count(value) if float(value).is_integer() else significant(value, DIGITS)


def menu() -> None:
    """The files of every table drawn so far; nothing where there is none, or inside another site's page."""
    tables = _tables.get()
    if not tables or st.context.is_embedded:
        return
    box = st.popover(prose.label("share", "tables"), on_change="rerun", key="page-tables", type="tertiary")
    if not box.open:
        return
    with box:
        st.caption(prose.detail("share", "tables") or "")
        for table in tables:
            st.markdown(", ".join(table.header))
            with st.container(horizontal=True):
                for suffix in table_files.SUFFIXES:
                    download(table, suffix)


def download(table: Table, suffix: str) -> None:
    file = f"{table.name}{suffix}"
    content = functools.partial(table_files.content, suffix, table.header, table.rows, foreign=table.foreign)
    st.download_button(file, content, file, key=f"table-{file}", on_click="ignore")
