"""What is shipped: the installed package, its version, the API reference, and the notebook."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kvmodel
from kvmodel import charts, files, frames
from kvmodel.inputs.case import Case

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOTEBOOK = ROOT / "docs" / "notebook" / "compare.ipynb"
CASE = {"model": "llama-3.1-8b", "gpu": "h100-sxm5-80gb", "tokens": 8192, "policy": "vllm-v1-offload"}


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT
    assert re.fullmatch(r"\d+\.\d+\.\d+", kvmodel.__version__)
    assert f"## {kvmodel.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as `pip install .` makes it, in a folder of its own."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    shutil.copytree(ROOT / "kvmodel", source / "kvmodel", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    if importlib.util.find_spec("pip") is None:
        pytest.skip("no pip in this environment")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "-q"]
    made = subprocess.run([*command, "--target", str(target), str(source)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return target


def test_the_package_has_its_data_and_types(installed: Path) -> None:
    def shipped(root: Path) -> set[str]:
        found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
        return {name for name in found if "__pycache__" not in name and not name.endswith(".md")}

    assert shipped(installed / "kvmodel") == shipped(ROOT / "kvmodel")
    assert (installed / "kvmodel" / "py.typed").exists()


def test_the_command_works_away_from_the_repository(installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(installed / "bin" / "kvmodel"), "compare", "--tokens", "2048", "--json"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(installed)}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == kvmodel.compare(tokens=2048)


def test_the_metadata_names_version_and_licence(installed: Path) -> None:
    metadata = next(installed.glob("*.dist-info")) / "METADATA"
    written = metadata.read_text()
    assert f"\nVersion: {kvmodel.__version__}\n" in written
    assert "\nLicense-Expression: MIT\n" in written


def test_the_api_reference_is_fresh() -> None:
    spec = importlib.util.spec_from_file_location("api_reference", ROOT / "docs" / "api_reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "api.md").read_text() == module.reference(), "run python docs/api_reference.py"


def test_the_notebook_runs_and_shows_numbers_and_a_chart() -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output["data"] for output in outputs if output.output_type in ("execute_result", "display_data")]
    figure = next(data["application/vnd.plotly.v1+json"] for data in shown if "application/vnd.plotly.v1+json" in data)
    assert len(figure["data"]) == len(charts.draw("crossover", Case(**CASE)).data)
    texts = "".join(data.get("text/plain", "") for data in shown)
    answer = kvmodel.compare(**CASE)
    assert repr(answer["verdict"]["winner"]) in texts
    assert f"{answer['break_even']['copy_bytes_per_s'] / 1e9:.1f} GB/s" in texts
    for table in (frames.compare(Case(**CASE))[["available", "victim_delay_s", "gpu_s", "link_bytes"]],
                  frames.evidence()[["kind", "n", "median_percent", "p90_percent"]]):  # fmt: skip
        assert str(table) in texts
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert printed.rstrip("\n") == files.as_csv(charts.points("crossover", Case(**CASE)))[:200].rstrip("\n")
