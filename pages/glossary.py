"""Every term on one card."""

import streamlit as st

from explorer import controls, prose
from explorer.frame import heading
from explorer.sections import glossary

heading("glossary")
controls.keep_inputs()
st.markdown(prose.text("glossary", "lead", glossary.numbers()))
glossary.show_cards(glossary.lookup())
