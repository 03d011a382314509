"""A server's metrics to what is wrong, why, and which flag to change first."""

from explorer import controls, page_tables
from explorer.frame import heading
from explorer.sections import diagnose_answer, diagnose_inputs

heading("diagnose")
controls.keep_inputs()
answer = diagnose_inputs.answer()
if answer is not None:
    diagnose_answer.show_all(answer)
    page_tables.menu()
