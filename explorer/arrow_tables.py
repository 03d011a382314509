"""Tables handed to Streamlit as Arrow, without pandas: its import takes half a second of the first page, and 76 MB.

For the pinned Streamlit, which asks pandas about every table what is already said of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow
import streamlit as st
from streamlit import dataframe_util
from streamlit.elements import table

format_of, is_index_hidden = dataframe_util.determine_data_format, table._compute_hide_index


def known_format(input_data: Any) -> dataframe_util.DataFormat:
    return dataframe_util.DataFormat.PYARROW_TABLE if isinstance(input_data, pyarrow.Table) else format_of(input_data)


def said_to_be_hidden(data: Any, hide_index: bool | None) -> bool:
    return is_index_hidden(data, hide_index) if hide_index is None else hide_index


dataframe_util.determine_data_format = known_format
table._compute_hide_index = said_to_be_hidden


def draw(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that scrolls inside its own frame on a phone."""
    columns = [texts([cells[index] for cells in rows]) for index in range(len(header))]
    st.table(pyarrow.Table.from_arrays(columns, list(header)), hide_index=True, width="content")


def texts(cells: Sequence[str]) -> pyarrow.StringArray:
    """A column; pyarrow.array would ask pandas whether the cells are one of its series."""
    encoded = [cell.encode() for cell in cells]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pyarrow.StringArray.from_buffers(len(cells), pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(encoded)))
