"""Results as plotly figures, with the words and the points of each.

May import everything that computes; it alone imports plotly. It never calls the model but in `named`, which draws a
chart by its name for a Case.
"""

from kvmodel.charts.named import BESIDE as BESIDE
from kvmodel.charts.named import NAMES as NAMES
from kvmodel.charts.named import alt as alt
from kvmodel.charts.named import draw as draw
from kvmodel.charts.named import points as points
from kvmodel.charts.theme import LIGHT as LIGHT
from kvmodel.charts.theme import STREAMLIT as STREAMLIT
