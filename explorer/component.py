"""A component of our own: its files lie in static/, and only a short loader is sent with each page.

The scripts come from the app's static files and stay in the browser's store; a new version has a new address.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import streamlit as st

FOLDER = Path(__file__).resolve().parent.parent / "static"


def component(name: str, folder: str, scripts: tuple[str, ...]) -> Any:
    """The component of a folder of static/, whose first script is the one that is loaded.

    Its data goes in a list of one: of a dictionary Streamlit asks for each value whether it is a table, by way of
    pandas. Where it cannot be loaded, its element shows the text that its data calls "failed".
    """
    version = hashlib.sha256("".join(text_of(folder, script) for script in scripts).encode()).hexdigest()[:12]
    loader = (FOLDER / "loader.js").read_text(encoding="utf-8")
    loader = loader.replace("[[script]]", f"{folder}/{scripts[0]}").replace("[[version]]", version)
    return st.components.v2.component(
        name, html=text_of(folder, f"{folder}.html"), css=text_of(folder, f"{folder}.css"), js=loader
    )


def text_of(folder: str, name: str) -> str:
    return (FOLDER / folder / name).read_text(encoding="utf-8")
