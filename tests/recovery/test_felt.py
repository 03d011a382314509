"""Whether preemptions matter: shares worked by hand, and the word for them at their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel.recovery import felt
from kvmodel.recovery.felt import Felt


def test_the_shares_of_a_server_worked_by_hand():
    """480 preemptions in 5,000 requests, each 0.5 s: 48 ms a request, of 60 s, 120 s and 12 s."""
    shares = felt.felt(480, 5000, 0.5, first_token_s=60, first_token_p99_s=120, stream_s=12, of_gpu_time=0.03)
    assert shares == Felt(pytest.approx(0.0008), pytest.approx(0.0004), pytest.approx(0.004), 0.03)
    assert shares.most == 0.03
    assert felt.matter(shares) == "hardly"


def test_what_is_not_known_is_no_share():
    assert felt.felt(1, 1, 1.0) == Felt()
    assert felt.matter(Felt()) is None
    assert felt.felt(1, 1, 1.0, first_token_s=0.0, stream_s=None).most is None


@pytest.mark.parametrize(
    ("share", "word"),
    [(0.0, "hardly"), (0.0999, "hardly"), (0.1, "in part"), (0.5, "in part"), (0.501, "yes"), (3.0, "yes")],
)
def test_the_largest_share_has_the_word(share, word):
    for name in ("of_first_token", "of_first_token_p99", "of_stream", "of_gpu_time"):
        assert felt.matter(Felt(**{name: share})) == word


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(1e-3, 10), st.floats(1e-2, 1e4))
def test_a_longer_wait_makes_the_same_preemptions_matter_less(events, finished, recompute_s, wait_s):
    now, later = (felt.felt(events, finished, recompute_s, first_token_s=s) for s in (wait_s, 2 * wait_s))
    assert later.of_first_token == pytest.approx(now.of_first_token / 2)
    assert now.of_first_token * wait_s == pytest.approx(felt.preemption_s(events, finished, recompute_s))
