#!/usr/bin/env python3
"""Set up and run the KV Cache Recovery Explorer; needs nothing but Python 3.11 or newer.

usage: python3 run.py [app] [streamlit options]   set up, then start the app on this machine
       python3 run.py serve [--check]             set up, then start the hosted form (docs/hosting.md)
       python3 run.py test [pytest options]       set up, then run the tests: without options all, two at a time
       python3 run.py setup                       set up only; the last line is the interpreter's path

Packages go into .venv beside this file, and are installed anew only when a lock file or Python changed.
"""

import ast
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess
from typing import NoReturn


def stop(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    sys.exit(2)


def check_python(version: "tuple[int, ...]", system: str) -> None:
    if version < (3, 11):
        stop(f"run.py needs Python 3.11 or newer, and {sys.executable} is Python {'.'.join(map(str, version))}.")
    if system != "posix":
        stop("run.py works on Linux and macOS; on Windows, run it inside WSL.")


# Older Pythons have to parse all of this file but run no further than this line.
check_python(sys.version_info[:3], os.name)

import fcntl  # noqa: E402  (does not exist on Windows)

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".installed"
APP_LOCK = "requirements.lock"
TEST_LOCK = "requirements-dev.lock"  # holds all of APP_LOCK
# The interpreter behind .venv when run.py is itself started with .venv/bin/python.
BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
ALL_TESTS = ["-n", "2"]  # two processes: more get in each other's way in the tests of servers and browsers
VENV_PACKAGES = [f"python{sys.version_info[0]}.{sys.version_info[1]}-venv", "python3-venv"]
PIP_OPTION_TO_UV = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "cert": "SSL_CERT_FILE"}

Command = list[str]


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def run(command: Command, environment: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    try:
        return subprocess.run(
            command, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, text=True, errors="replace"
        )
    except OSError as error:
        return CompletedProcess(command, 127, str(error))


def output_of(command: Command) -> str | None:
    """What the command printed, or None if it is missing or failed."""
    result = run(command)
    return result.stdout if result.returncode == 0 else None


def succeeds(command: Command, environment: Mapping[str, str] | None = None) -> bool:
    """Run the command, and show what it printed only if it failed."""
    result = run(command, environment)
    if result.returncode != 0:
        say(f"{result.stdout.rstrip()}\n{Path(command[0]).name} failed with exit status {result.returncode}.")
    return result.returncode == 0


def has_ensurepip() -> bool:
    return output_of([BASE_PYTHON, "-c", "import ensurepip, venv"]) is not None


def first_that_answers(programs: Iterable[Command], *arguments: str) -> Command | None:
    return next((program for program in programs if output_of([*program, *arguments]) is not None), None)


def pip_of_this_machine() -> Command | None:
    """A pip outside .venv that can install into it, which pip can since version 22.3."""
    pips = [BASE_PYTHON, "-m", "pip"], ["pip3"], ["pip"]
    return first_that_answers(pips, "--python", BASE_PYTHON, "--version")


def apt_get_installs_venv() -> bool:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    succeeds(["apt-get", "update"], environment)
    for package in VENV_PACKAGES:
        say(f"Installing the package {package} with apt-get.")
        if succeeds(["apt-get", "install", "-y", package], environment) and has_ensurepip():
            return True
    return False


def ways_to_make_environment() -> Iterator[tuple[str, Command]]:
    """Names and commands, best first; a way is looked for only when those before it failed."""
    venv = [BASE_PYTHON, "-m", "venv", str(VENV)]
    if shutil.which("uv"):
        yield "uv", ["uv", "venv", "--python", BASE_PYTHON, str(VENV)]
    if has_ensurepip():
        yield "venv", venv
        return
    if pip_of_this_machine():
        yield "venv, without a pip of its own", [*venv, "--without-pip"]
    virtualenv = first_that_answers(([BASE_PYTHON, "-m", "virtualenv"], ["virtualenv"]), "--version")
    if virtualenv:
        yield "virtualenv", [*virtualenv, "--python", BASE_PYTHON, str(VENV)]
    if apt_get_installs_venv():
        yield "venv", venv


def remove_environment() -> None:
    STAMP.unlink(missing_ok=True)
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    elif VENV.exists():
        shutil.rmtree(VENV)


def make_environment() -> None:
    if not os.access(ROOT, os.W_OK):
        stop(f"run.py has to make {VENV}, but may not write there.")
    remove_environment()
    for name, command in ways_to_make_environment():
        say(f"Making .venv with {name}.")
        if succeeds(command):
            return
        remove_environment()
    stop(f"run.py cannot make .venv here: install the package {VENV_PACKAGES[0]} (or uv) and start it again.")


def pip_settings() -> dict[str, str]:
    """The user's pip settings for installing, where a pip is there to tell them."""
    pip = pip_of_this_machine()
    listing = output_of([*pip, "config", "list"]) if pip else None
    settings = {}
    for scope in ("global.", "install.", ":env:."):
        for line in (listing or "").splitlines():
            name, _, value = line.partition("=")
            if name.startswith(scope):
                settings[name[len(scope) :]] = " ".join(ast.literal_eval(value).split())
    return settings


def uv_environment() -> dict[str, str]:
    """uv reads no pip configuration, so tell it the package index and certificates named there."""
    settings = pip_settings()
    from_pip = {variable: settings[option] for option, variable in PIP_OPTION_TO_UV.items() if option in settings}
    # Any index may serve a file, as with pip, since the lock's hashes decide whether it is the right one.
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **from_pip, **os.environ}


def ways_to_install() -> Iterator[tuple[str, Command, dict[str, str]]]:
    if shutil.which("uv"):
        yield "uv", ["uv", "pip", "install", "--python", str(PYTHON)], uv_environment()
    own_pip = [str(PYTHON), "-m", "pip"]
    has_pip = output_of([*own_pip, "--version"]) or output_of([str(PYTHON), "-m", "ensurepip"])
    pip = own_pip if has_pip else pip_of_this_machine()
    if pip:
        yield "pip", [*pip, "--python", str(PYTHON), "install", "--disable-pip-version-check"], dict(os.environ)


def install(lock: str) -> None:
    for name, command, environment in ways_to_install():
        say(f"Installing {lock} with {name}, which may take a minute.")
        if succeeds([*command, "--require-hashes", "-r", str(ROOT / lock)], environment):
            return
    stop("The packages could not be installed; the messages above say why.")


def fingerprint() -> str:
    """Changes when .venv has to be made anew: moved, other Python, other packages."""
    digest = hashlib.sha256(repr((str(VENV), sys.version_info[:2])).encode())
    for lock in (APP_LOCK, TEST_LOCK):
        digest.update((ROOT / lock).read_bytes())
    return digest.hexdigest()


def installed_lock() -> str | None:
    """The lock file whose packages .venv holds, or None if .venv has to be made anew."""
    if not STAMP.is_file() or output_of([str(PYTHON), "-c", ""]) is None:
        return None
    made_for, _, lock = STAMP.read_text().partition(" ")
    return lock if made_for == fingerprint() else None


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    with open(__file__) as this_file:
        try:
            fcntl.flock(this_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another run.py that is setting up.")
            fcntl.flock(this_file, fcntl.LOCK_EX)
        yield


def set_up(lock: str) -> None:
    with one_at_a_time():
        present = installed_lock()
        if present in (lock, TEST_LOCK):
            return
        if present is None:
            make_environment()
        install(lock)
        STAMP.write_text(f"{fingerprint()} {lock}")


def become(*command: str) -> NoReturn:
    """Replace this process, so that signals and the exit status are those of the command."""
    os.chdir(ROOT)
    os.execv(PYTHON, [str(PYTHON), *command])


def main(arguments: list[str]) -> None:
    named = bool(arguments) and not arguments[0].startswith("-")
    verb, rest = (arguments[0], arguments[1:]) if named else ("app", arguments)
    if rest[:1] in (["-h"], ["--help"]) and not named:
        print(__doc__)
    elif verb == "app":
        set_up(APP_LOCK)
        become("-m", "streamlit", "run", "app.py", "--server.address=127.0.0.1", *rest)
    elif verb == "serve":
        set_up(APP_LOCK)
        become("-m", "serve", *rest)
    elif verb == "test":
        set_up(TEST_LOCK)
        # The tests start Python hundreds of times: without its cache each would compile every module again.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        become("-m", "pytest", *(rest or ALL_TESTS))
    elif verb == "setup" and not rest:
        set_up(TEST_LOCK)
        print(PYTHON)
    else:
        stop(f"run.py does not know '{' '.join(arguments)}'; the verbs are app, serve, test and setup (see --help).")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
