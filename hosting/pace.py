"""How much of something each visitor may use by and by: so much at once, and so much more a second."""

from __future__ import annotations

MOST_KEYS = 1000


class Pace:
    """What was used, by a key for whoever used it: an address, a session. Times are those of a monotonic clock."""

    def __init__(self, *, at_once: float, per_s: float) -> None:
        self._at_once_s, self._per_s = at_once / per_s, per_s
        self._paid_until_s: dict[str, float] = {}  # what was used is paid for by then

    def use(self, key: str, amount: float, now_s: float) -> float:
        """Note that `amount` is used now. Returns for how many seconds it is too much; 0 where it is not."""
        rested_s = now_s - self._at_once_s
        if len(self._paid_until_s) > MOST_KEYS:
            self._paid_until_s = {name: paid_s for name, paid_s in self._paid_until_s.items() if paid_s > rested_s}
        paid_s = max(self._paid_until_s.get(key, rested_s), rested_s) + amount / self._per_s
        self._paid_until_s[key] = paid_s
        return self.above_s(key, now_s)

    def above_s(self, key: str, now_s: float) -> float:
        """For how many seconds what was used is still too much."""
        return max(0.0, self._paid_until_s.get(key, now_s) - now_s)
