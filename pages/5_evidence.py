"""How far the model is from what others measured, what is not covered, and a reader's own measurement against it."""

from explorer import calibration, controls, evidence, why
from explorer.frame import frame, places
from kvmodel.figures import case_figures


def page() -> None:
    answer, side, rest = places()
    result = controls.comparison(answer, side, rest)
    with answer:
        evidence.lead(result.case)
        shown, every = evidence.filtered()
        evidence.show_charts(shown)
    with rest:
        calibration.form(result.case, case_figures(result))
        why.toggle(result, ("recompute", "swap"))
        evidence.show_errors(every)
        evidence.show_gaps()
        evidence.show_sources()


frame("evidence", page)
