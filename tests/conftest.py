"""How the tests are shared out when they run side by side (python3 run.py test, or pytest -n 2)."""

from __future__ import annotations

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling


class FileByFile(LoadScopeScheduling):
    """Files go to whoever is free, in order; those with a browser all to one, as two at once take turns at the CPU."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "tests/browser" if file.startswith("tests/browser/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileByFile:
    config.option.loadscopereorder = False  # the browser's, which take longest, come first
    return FileByFile(config, log)
