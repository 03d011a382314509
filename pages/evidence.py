"""How far the model is from what others measured, what is not covered, and a reader's own measurement against it."""

from explorer import controls
from explorer.frame import frame, places
from explorer.sections import calibration, evidence, why
from kvmodel.texts.comparison import case_texts


def page() -> None:
    answer, side, rest = places()
    result = controls.comparison(answer, side, rest)
    with answer:
        evidence.lead(result.case)
        pairs, every = evidence.filters()
        evidence.show_charts(pairs)
    with rest:
        calibration.form(result.case, case_texts(result))
        why.toggle(result, ("recompute", "swap"))
        evidence.show_errors(every)
        evidence.show_gaps()
        evidence.show_sources()


frame("evidence", page)
