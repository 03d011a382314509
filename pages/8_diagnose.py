"""A server's metrics to what is wrong, why, and which flag to change first."""

from explorer import controls, diagnose, diagnosis, page_tables
from explorer.frame import heading

heading("diagnose")
controls.keep_inputs()
answer = diagnose.answer()
if answer is not None:
    diagnosis.show_all(answer)
    page_tables.menu()
