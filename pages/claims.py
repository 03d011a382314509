"""What the article and the vLLM paper say, judged one by one, and what exists in which engine release."""

import streamlit as st

from explorer import controls, page_tables, prose
from explorer.frame import heading
from explorer.sections import claims

heading("claims")
controls.keep_inputs()
st.markdown(claims.lead())
cards, opened = claims.filters()
if not cards:
    st.info(prose.text("claims", "none"))
for card in cards:
    claims.show_card(card, opened=opened)
claims.show_releases()
page_tables.menu()
