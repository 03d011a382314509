"""Everything Streamlit: the frame of a page, controls, prose and the display of charts."""
