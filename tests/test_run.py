"""run.py, without a network: nothing here makes or fills a real environment."""

import ast
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import run

START = ["streamlit", "run", "app.py", "--server.address=127.0.0.1"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with lock files and no .venv."""
    for lock in (run.APP_LOCK, run.TEST_LOCK):
        (tmp_path / lock).write_text(f"# {lock}\n")
    venv = tmp_path / ".venv"
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "VENV", venv)
    monkeypatch.setattr(run, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(run, "STAMP", venv / ".installed")
    return tmp_path


class FakeSetup:
    """Records what set_up does, and makes an environment whose python is the one running the tests."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.install_fails = False

    def make_environment(self) -> None:
        self.steps.append("make")
        run.remove_environment()
        run.PYTHON.parent.mkdir(parents=True)
        run.PYTHON.symlink_to(sys.executable)

    def install(self, lock: str) -> None:
        self.steps.append(lock)
        if self.install_fails:
            run.stop("no")


@pytest.fixture
def fake(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSetup:
    fake = FakeSetup()
    monkeypatch.setattr(run, "make_environment", fake.make_environment)
    monkeypatch.setattr(run, "install", fake.install)
    return fake


class Machine:
    """What the faked machine has, set by the tests."""

    def __init__(self) -> None:
        self.programs: set[str] = set()
        self.answers: dict[tuple[str, ...], str] = {}
        self.failing: set[str] = set()
        self.root = False
        self.commands: list[list[str]] = []

    def output_of(self, command: list[str]) -> str | None:
        return self.answers.get(tuple(command))

    def succeeds(self, command: list[str], environment: object = None) -> bool:
        self.commands.append(command)
        return command[0] not in self.failing

    def has(self, *command: str, answer: str = "") -> None:
        self.answers[command] = answer


@pytest.fixture
def machine(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(run, "output_of", machine.output_of)
    monkeypatch.setattr(run, "succeeds", machine.succeeds)
    monkeypatch.setattr(run, "VENV_PACKAGES", ["python3.11-venv", "python3-venv"])
    monkeypatch.setattr(run.shutil, "which", lambda name: f"/bin/{name}" if name in machine.programs else None)
    monkeypatch.setattr(run.os, "geteuid", lambda: 0 if machine.root else 1000)
    return machine


def way_names(ways: Iterator[tuple[str, list[str]]]) -> list[str]:
    return [name for name, _ in ways]


def has_ensurepip(machine: Machine) -> None:
    machine.has(run.BASE_PYTHON, "-c", "import ensurepip, venv")


class TestPythonVersion:
    @pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 13)])
    def test_old_one_gets_one_sentence(self, version: tuple[int, ...], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as stopped:
            run.check_python(version, "posix")
        said = capsys.readouterr().err
        assert stopped.value.code == 2
        assert "needs Python 3.11 or newer" in said
        assert ".".join(map(str, version)) in said
        assert said.count("\n") == 1

    @pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 1), (4, 0, 0)])
    def test_new_one_passes(self, version: tuple[int, ...]) -> None:
        run.check_python(version, "posix")

    def test_windows_gets_one_sentence(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            run.check_python((3, 13, 0), "nt")
        assert "WSL" in capsys.readouterr().err

    def test_old_pythons_can_parse_the_file(self) -> None:
        ast.parse(Path(run.__file__).read_text(), feature_version=(3, 6))


class TestUsage:
    def main(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, run.__file__, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    def test_help(self) -> None:
        shown = self.main("--help")
        assert shown.returncode == 0
        assert "run.py test" in shown.stdout

    @pytest.mark.parametrize("arguments", [["frob"], ["setup", "extra"]])
    def test_unknown_verb(self, arguments: list[str]) -> None:
        refused = self.main(*arguments)
        assert refused.returncode == 2
        assert refused.stdout == ""
        assert "app, serve, test and setup" in refused.stderr

    @pytest.mark.parametrize(
        ("arguments", "lock", "command"),
        [
            ([], run.APP_LOCK, START),
            (["--server.port=1"], run.APP_LOCK, [*START, "--server.port=1"]),
            (["app", "--help"], run.APP_LOCK, [*START, "--help"]),
            (["serve", "--check"], run.APP_LOCK, ["serve", "--check"]),
            (["test"], run.TEST_LOCK, ["pytest", "-n", "2"]),
            (["test", "-k", "units"], run.TEST_LOCK, ["pytest", "-k", "units"]),
        ],
    )
    def test_verbs(self, arguments: list[str], lock: str, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[object] = []
        monkeypatch.setattr(run, "set_up", calls.append)
        monkeypatch.setattr(run, "become", lambda *command: calls.append(list(command)))
        run.main(arguments)
        assert calls == [lock, ["-m", *command]]

    def test_setup_prints_the_interpreter_last(self, fake: FakeSetup, capsys: pytest.CaptureFixture[str]) -> None:
        run.main(["setup"])
        assert fake.steps == ["make", run.TEST_LOCK]
        assert capsys.readouterr().out.splitlines()[-1] == str(run.PYTHON)


class TestSetUp:
    def test_second_time_does_nothing(self, fake: FakeSetup) -> None:
        run.set_up(run.APP_LOCK)
        run.set_up(run.APP_LOCK)
        assert fake.steps == ["make", run.APP_LOCK]

    def test_test_packages_are_added_to_a_running_app(self, fake: FakeSetup) -> None:
        run.set_up(run.APP_LOCK)
        run.set_up(run.TEST_LOCK)
        assert fake.steps == ["make", run.APP_LOCK, run.TEST_LOCK]

    def test_test_packages_hold_those_of_the_app(self, fake: FakeSetup) -> None:
        run.set_up(run.TEST_LOCK)
        run.set_up(run.APP_LOCK)
        assert fake.steps == ["make", run.TEST_LOCK]

    @pytest.mark.parametrize("lock", [run.APP_LOCK, run.TEST_LOCK])
    def test_changed_lock(self, lock: str, fake: FakeSetup, checkout: Path) -> None:
        run.set_up(run.TEST_LOCK)
        (checkout / lock).write_text("changed\n")
        run.set_up(run.TEST_LOCK)
        assert fake.steps == ["make", run.TEST_LOCK] * 2

    def test_other_python(self, fake: FakeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
        run.set_up(run.APP_LOCK)
        monkeypatch.setattr(run.sys, "version_info", (3, 99, 0))
        run.set_up(run.APP_LOCK)
        assert fake.steps == ["make", run.APP_LOCK] * 2

    def test_half_finished_install(self, fake: FakeSetup) -> None:
        fake.install_fails = True
        with pytest.raises(SystemExit):
            run.set_up(run.APP_LOCK)
        fake.install_fails = False
        run.set_up(run.APP_LOCK)
        assert fake.steps == ["make", run.APP_LOCK] * 2

    def test_failing_to_add_test_packages_keeps_the_app(self, fake: FakeSetup) -> None:
        run.set_up(run.APP_LOCK)
        fake.install_fails = True
        with pytest.raises(SystemExit):
            run.set_up(run.TEST_LOCK)
        run.set_up(run.APP_LOCK)
        assert fake.steps == ["make", run.APP_LOCK, run.TEST_LOCK]

    def test_broken_environment(self, fake: FakeSetup) -> None:
        run.set_up(run.APP_LOCK)
        run.PYTHON.unlink()
        run.PYTHON.symlink_to("/nowhere/python")
        run.set_up(run.APP_LOCK)
        assert fake.steps == ["make", run.APP_LOCK] * 2

    def test_moved_environment(self, fake: FakeSetup, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        run.set_up(run.APP_LOCK)
        moved = checkout / "moved"
        run.VENV.rename(moved)
        monkeypatch.setattr(run, "VENV", moved)
        monkeypatch.setattr(run, "PYTHON", moved / "bin" / "python")
        monkeypatch.setattr(run, "STAMP", moved / ".installed")
        assert run.installed_lock() is None

    def test_only_one_at_a_time(self) -> None:
        with run.one_at_a_time(), open(run.__file__) as second, pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_linked_environment_leaves_its_target(self, checkout: Path) -> None:
        elsewhere = checkout / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "kept").touch()
        run.VENV.symlink_to(elsewhere)
        run.remove_environment()
        assert not run.VENV.exists()
        assert (elsewhere / "kept").exists()


class TestWaysToMakeEnvironment:
    def test_uv_comes_first(self, machine: Machine) -> None:
        machine.programs = {"uv"}
        has_ensurepip(machine)
        assert way_names(run.ways_to_make_environment()) == ["uv", "venv"]

    def test_venv(self, machine: Machine) -> None:
        has_ensurepip(machine)
        machine.root, machine.programs = True, {"apt-get"}
        assert list(run.ways_to_make_environment()) == [("venv", [run.BASE_PYTHON, "-m", "venv", str(run.VENV)])]

    def test_pip_of_the_machine_comes_before_virtualenv(self, machine: Machine) -> None:
        machine.has("pip3", "--python", run.BASE_PYTHON, "--version")
        machine.has("virtualenv", "--version")
        ways = list(run.ways_to_make_environment())
        assert ways[0][1][-1] == "--without-pip"
        assert ways[1][0] == "virtualenv"
        assert len(ways) == 2

    def test_root_installs_the_venv_package(self, machine: Machine) -> None:
        machine.root, machine.programs = True, {"apt-get"}
        ways = run.ways_to_make_environment()
        assert list(ways) == []  # since no ensurepip came with either package
        assert machine.commands == [
            ["apt-get", "update"],
            ["apt-get", "install", "-y", "python3.11-venv"],
            ["apt-get", "install", "-y", "python3-venv"],
        ]

    def test_others_get_one_sentence(self, machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
        machine.programs = {"apt-get"}
        with pytest.raises(SystemExit) as stopped:
            run.make_environment()
        assert stopped.value.code == 2
        assert machine.commands == []
        said = capsys.readouterr().err
        assert "python3.11-venv" in said
        assert said.count("\n") == 1

    def test_next_way_follows_a_failure(self, machine: Machine) -> None:
        machine.programs, machine.failing = {"uv"}, {"uv"}
        has_ensurepip(machine)
        run.make_environment()
        assert [command[0] for command in machine.commands] == ["uv", run.BASE_PYTHON]

    def test_read_only_checkout(
        self, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(run.os, "access", lambda path, mode: False)
        with pytest.raises(SystemExit):
            run.make_environment()
        assert "may not write" in capsys.readouterr().err


class TestInstall:
    def test_uv_then_pip(self, machine: Machine) -> None:
        machine.programs, machine.failing = {"uv"}, {"uv"}
        machine.has(str(run.PYTHON), "-m", "pip", "--version", answer="pip 25")
        run.install(run.APP_LOCK)
        uv, pip = machine.commands
        assert uv[:3] == ["uv", "pip", "install"]
        assert pip[:3] == [str(run.PYTHON), "-m", "pip"]
        for command in (uv, pip):
            assert command[-3:] == ["--require-hashes", "-r", str(run.ROOT / run.APP_LOCK)]

    def test_pip_of_the_machine_fills_an_environment_without_pip(self, machine: Machine) -> None:
        machine.has("pip3", "--python", run.BASE_PYTHON, "--version")
        run.install(run.APP_LOCK)
        assert machine.commands[0][:4] == ["pip3", "--python", str(run.PYTHON), "install"]

    def test_failure_is_not_taken_for_done(self, machine: Machine) -> None:
        with pytest.raises(SystemExit) as stopped:
            run.install(run.APP_LOCK)
        assert stopped.value.code == 2


class TestUvHonoursPipConfiguration:
    @pytest.fixture(autouse=True)
    def no_settings(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable in ("UV_DEFAULT_INDEX", "UV_INDEX", "SSL_CERT_FILE"):
            monkeypatch.delenv(variable, raising=False)
        machine.has("pip3", "--python", run.BASE_PYTHON, "--version")

    def test_index_is_handed_on(self, machine: Machine) -> None:
        listing = "global.index-url='https://a/simple'\ninstall.index-url='https://b/simple'\nfreeze.index-url='c'\n"
        listing += "global.extra-index-url='\\nhttps://d\\nhttps://e'\nglobal.timeout='5'\nWARNING: x=y\n"
        machine.has("pip3", "config", "list", answer=listing)
        environment = run.uv_environment()
        assert environment["UV_DEFAULT_INDEX"] == "https://b/simple"
        assert environment["UV_INDEX"] == "https://d https://e"
        assert "SSL_CERT_FILE" not in environment

    def test_uv_settings_of_the_user_win(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine/simple")
        machine.has("pip3", "config", "list", answer=":env:.index-url='https://other/simple'\n")
        assert run.uv_environment()["UV_DEFAULT_INDEX"] == "https://mine/simple"

    def test_no_pip_configuration(self) -> None:
        assert "UV_DEFAULT_INDEX" not in run.uv_environment()


class TestCommands:
    def test_output_of(self) -> None:
        assert run.output_of([sys.executable, "-c", "print(1)"]) == "1\n"
        assert run.output_of([sys.executable, "-c", "raise SystemExit(3)"]) is None
        assert run.output_of(["/nowhere/program"]) is None

    def test_failure_is_shown_and_success_is_not(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run.succeeds([sys.executable, "-c", "print('fine')"])
        assert capsys.readouterr().err == ""
        assert not run.succeeds([sys.executable, "-c", "print('bad'); raise SystemExit(3)"])
        assert "bad" in capsys.readouterr().err


def test_locks_pin_and_hash_every_requirement() -> None:
    for requirements, lock in (
        ("requirements.txt", run.APP_LOCK), ("requirements-pictures.txt", "requirements-pictures.lock"),
        ("requirements-dev.txt", run.TEST_LOCK),
    ):  # fmt: skip
        locked = (run.ROOT / lock).read_text()
        wanted = [line for line in (run.ROOT / requirements).read_text().splitlines() if "==" in line]
        assert wanted
        for requirement in wanted:
            pin, _, marker = requirement.replace('"', "'").partition(";")
            line = f"{pin.strip()} ; {marker.strip()}" if marker else pin
            assert f"\n{line} \\\n    --hash=sha256:" in locked
        assert "://" not in locked


def test_test_lock_holds_all_of_the_app_lock() -> None:
    def pins(lock: str) -> set[str]:
        return {line for line in (run.ROOT / lock).read_text().splitlines() if line[:1].isalnum()}

    assert pins(run.APP_LOCK) < pins(run.TEST_LOCK)
