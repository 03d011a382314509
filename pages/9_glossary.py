"""Every term on one card."""

import streamlit as st

from explorer import claims, glossary, prose
from explorer.frame import heading

heading("glossary")
claims.keep_inputs()
st.markdown(prose.text("glossary", "lead", glossary.numbers()))
glossary.show_cards(glossary.chosen())
