"""The command line: every command as text and JSON, hand-worked values, exit codes and one-sentence errors."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvmodel
from kvmodel.cli import command_line
from kvmodel.inputs.case import DEFAULTS

DATA = Path(__file__).parents[1] / "data"
KEYS = {
    "size": "kv_bytes kv_bytes_per_gpu growth_bytes_per_token fixed_bytes kv_bytes_hybrid_off fields_used",
    "capacity": "pool_bytes pool_blocks pool_tokens max_concurrency",
    "prefill": "prefill_s low_s high_s floor_s bound mfu",
    "copy": "copy_s effective_bytes_per_s wire_s per_copy_s",
    "compare": "strategies wait_for_blocks_s verdict break_even",
    "figure19": "block_tokens swap_s recompute_plotted_s recompute_measured_s ratio ratio_measured "
    "crossing_block_tokens crossing_plotted_block_tokens",
    "scenarios": "rows",
}


@pytest.fixture
def run(capsys):
    """Exit code, standard output and standard error of a command line."""

    def run(line):
        code = command_line.main(line.split() if isinstance(line, str) else line)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def answer(run):
    """The JSON of a command line that succeeds."""

    def answer(line):
        code, out, err = run(f"{line} --json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))

    return answer


@pytest.mark.parametrize("command", KEYS)
def test_json_has_the_promised_keys(answer, command):
    assert set(KEYS[command].split()) <= set(answer(command))


@pytest.mark.parametrize("command", KEYS)
def test_text_for_people(run, command):
    code, out, err = run(command)
    assert (code, err) == (0, "")
    assert out.strip()
    assert not any(word in out for word in ("nan", "None", "inf ", "e-0"))
    assert all(len(line) <= 120 for line in out.splitlines() if not line.startswith("note"))


@pytest.mark.parametrize("command", command_line.COMMANDS)
def test_help_shows_an_example_and_every_flag(command, capsys):
    with pytest.raises(SystemExit) as end:
        command_line.main([command, "--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0
    assert f"python -m kvmodel {command}" in out
    assert "example:" in out
    described = command_line.COMMANDS[command]
    assert all(command_line.flag(field) in out for field in (*described.fields, *described.inputs))


def test_overview_names_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"  {name} " in out for name in command_line.COMMANDS)


def test_every_example_runs(run, tmp_path, monkeypatch):
    """In a folder with two scrapes of a server; examples that write, write there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(DATA.parent)
    for name, sample in (("scrape.prom", "mid"), ("later.prom", "end")):
        shutil.copy(DATA / "metrics" / f"vllm_0_33_classes_{sample}.prom", tmp_path / name)
    for name, command in command_line.COMMANDS.items():
        if name != "chart":
            assert run(f"{name} {command.example}")[0] == 0, name


# hand-worked values


def test_llama_3_8b_grows_by_131072_bytes_a_token(answer):
    size = answer("size --model llama-3-8b --tokens 4096 --tp 2")
    assert size["growth_bytes_per_token"] == 2 * 32 * 8 * 128 * 2 == 131_072
    assert size["kv_bytes"] == 4096 * 131_072
    assert size["kv_bytes_per_gpu"] == 4096 * 131_072 / 2
    assert size["fixed_bytes"] == 0


def test_blocks_are_held_whole(answer):
    assert answer("size --tokens 17 --block-tokens 16")["kv_bytes_in_blocks"] == 32 * 131_072


def test_figures_used_multiply_to_the_growth(answer):
    used = answer("size --kv-dtype fp8")["fields_used"]
    (group,) = used["kv_layers"]
    assert group["bound_tokens"] is None  # endless
    product = group["layers"] * group["kv_heads"] * (group["key_dim"] + group["value_dim"]) * used["bytes_per_value"]
    assert product == 65_536
    assert (used["num_hidden_layers"], used["num_key_value_heads"], used["head_dim"]) == (32, 8, 128)


def test_mla_has_one_vector_a_layer(answer):
    size = answer("size --model deepseek-v3 --tokens 1")
    assert size["kv_bytes"] == 61 * (512 + 64) * 2
    assert size["fields_used"]["kv_lora_rank"] == 512


def test_capacity_adds_up(answer):
    pool = answer("capacity --model llama-3.1-8b --gpu h100-sxm5-80gb --max-model-len 32768 --utilization 0.9")
    spent = pool["weight_bytes"] + pool["activation_bytes"] + pool["engine_bytes"] + pool["pool_bytes"]
    assert spent == pytest.approx(0.9 * pool["total_bytes"])
    assert pool["pool_blocks"] == int(pool["pool_bytes"] // (16 * 131_072))
    assert pool["max_concurrency"] == pytest.approx(pool["pool_bytes"] / (32768 * 131_072))


def test_max_model_len_defaults_to_what_the_model_allows(answer):
    assert answer("capacity --model llama-3.1-8b")["max_model_len"] == 131_072
    assert answer("capacity --model llama-2-7b")["max_model_len"] == 4096


def test_one_short_prefill_is_bound_by_memory_and_a_long_one_by_compute(answer):
    assert answer("prefill --tokens 16")["bound"] == "memory"
    long = answer("prefill --tokens 8192")
    assert long["bound"] == "compute"
    assert long["floor_s"] < long["low_s"] < long["prefill_s"] < long["high_s"]
    assert 0.4 < long["mfu"] < 1
    flop = long["mfu"] * long["prefill_s"] * 312e12
    matrices = 2 * (8_030_261_248 - 2 * 128_256 * 4096) * 8192  # without embedding and head
    attention = 4 * 32 * 128 * 32 * 8192**2 / 2
    assert flop == pytest.approx(matrices + attention, rel=0.001)


def test_parts_of_a_prefill_add_up_to_its_kernels(answer):
    kernels = answer("prefill --timing kernels --tokens 5000")
    assert sum(kernels["kernel_parts"].values()) == pytest.approx(kernels["prefill_s"])


def test_sequences_prefilled_together_take_as_long_as_their_tokens_without_the_attention(answer):
    together, alone = answer("prefill --tokens 1024 --batch 4"), answer("prefill --tokens 4096")
    assert together["prefill_s"] < alone["prefill_s"]
    assert together["prefill_s"] == pytest.approx(alone["prefill_s"], rel=0.1)
    assert together["kernel_parts"] is None


def test_copy_is_a_cost_a_copy_and_a_cost_a_byte(answer):
    copy = answer("copy --copy-gb-per-s 25 --per-copy-us 10 --bytes-per-copy 1000000 --copies 100")
    assert copy["copy_s"] == pytest.approx(100 * 10e-6 + 1e8 / 25e9)
    assert copy["wire_s"] == pytest.approx(0.004)
    assert copy["per_copy_s"] == pytest.approx(10e-6)
    assert copy["effective_bytes_per_s"] == pytest.approx(1e8 / 0.005)


def test_copy_goes_over_the_gpus_own_link_unless_one_is_named(answer):
    assert answer("copy --gpu h100-sxm5-80gb")["link"] == "pcie5-x16"
    assert answer("copy --gpu h100-sxm5-80gb --link pcie3-x16 --rate link")["link_bytes_per_s"] == 15.75e9


def test_figure_19(answer):
    figure = answer("figure19")
    assert figure["block_tokens"] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert figure["swap_s"] == pytest.approx(
        [0.137, 0.085, 0.059, 0.0465, 0.0400, 0.0368, 0.0352, 0.0344, 0.0340], rel=0.02
    )
    assert figure["ratio"][-1] == pytest.approx(1.18, abs=0.01)
    assert figure["crossing_plotted_block_tokens"] == 16


@pytest.mark.parametrize(
    ("tokens", "recompute_s", "load_s"), [(10_000, 0.263, 0.042), (50_000, 2.291, 0.150), (100_000, 6.850, 0.310)]
)
def test_h100_recompute_and_load_of_8b_as_measured(answer, tokens, recompute_s, load_s):
    compared = answer(f"compare --model llama-3.1-8b --gpu h100-sxm5-80gb --timing today --tokens {tokens}")
    strategies = compared["strategies"]
    assert strategies["recompute"]["victim_delay_s"] == pytest.approx(recompute_s, rel=0.15)
    assert strategies["swap"]["in_s"] == pytest.approx(load_s, rel=0.15)


def test_compare_is_the_packages_compare(answer):
    choices = {"gpu": "h100-sxm5-80gb", "tokens": 9000, "policy": "vllm-v0", "survival": 0.25}
    flags = " ".join(f"--{name} {value}" for name, value in choices.items())
    assert answer(f"compare {flags}") == json.loads(json.dumps(kvmodel.compare(**choices)))


def test_compare_takes_every_field_of_the_case(answer):
    assert set(command_line.COMMANDS["compare"].fields) == set(DEFAULTS)
    assert answer("compare --layout per-layer-kv --objective gpu_time")["case"]["objective"] == "gpu-time"


def test_what_is_unknown_is_null(answer):
    """No batch that fits: prices that rest on it do not exist."""
    none = answer("compare --decode-batch 9999")
    assert none["strategies"]["recompute"]["gpu_s"] is None
    assert none["wait_for_blocks_s"] is None
    assert "decode_batch" in none["notes"][0]


def test_scenarios_say_what_the_article_and_the_model_say(answer):
    rows = answer("scenarios")["rows"]
    assert all({"id", "article", "model", "condition"} <= set(row) for row in rows)


# charts


@pytest.fixture
def chart():
    pytest.importorskip("plotly")
    charts = pytest.importorskip("kvmodel.charts")
    return charts.NAMES[0]


def test_chart_files(run, chart, tmp_path):
    for suffix in ("html", "json", "csv"):
        path = tmp_path / f"chart.{suffix}"
        code, out, err = run(["chart", chart, "--tokens", "2048", "-o", str(path)])
        assert (code, err) == (0, "")
        assert str(path) in out
        assert path.stat().st_size > 100
    page = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert '<script src="http' not in page
    assert "data" in json.loads((tmp_path / "chart.json").read_text(encoding="utf-8"))
    assert len((tmp_path / "chart.csv").read_text(encoding="utf-8").splitlines()) > 2


def test_chart_refusals(run, chart, tmp_path):
    for line in (["chart", "-o", "a.html"], ["chart", "nosuch", "-o", "a.html"], ["chart", chart]):
        refused(run(line))
    assert ".html, .json, .csv" in refused(run(["chart", chart, "-o", str(tmp_path / "a.docx")]))
    assert "nowhere" in refused(run(["chart", chart, "-o", str(tmp_path / "nowhere" / "a.json")]))


# refusals


def refused(result):
    """The one sentence of a refusal."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert "usage" not in err
    return err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", ["command", "size", "compare"]),
        ("sise", ["sise", "size"]),
        ("size --tokns 3", ["--tokns", "--tokens"]),
        ("size --gpu a100-sxm4-80gb", ["--gpu"]),
        ("size --tokens", ["--tokens"]),
        ("size 4096", ["4096"]),
        ("size --tok 4096", ["--tok"]),  # flags are not abbreviated: a later one may begin alike
        ("size --tokens 0", ["tokens", "'0'", "1 to 10,000,000"]),
        ("size --tokens -5", ["tokens", "'-5'"]),
        ("size --tokens many", ["tokens", "'many'"]),
        ("size --tokens nan", ["tokens", "'nan'"]),
        ("size --tokens 1.5", ["tokens", "'1.5'"]),
        ("size --kv-dtype fp4", ["kv_dtype", "fp4", "fp8"]),
        ("size --tp 3", ["tp", "llama-3-8b", "1, 2, 4, 8"]),
        ("size --model llama3.8b", ["llama3.8b", "llama-3-8b"]),
        ("size -o x.csv", ["-o", "--rows"]),
        ("capacity --utilization 1.1", ["utilization", "0.01 to 1"]),
        ("capacity --utilization nan", ["utilization", "nan"]),
        ("capacity --max-model-len 0", ["max_model_len"]),
        ("capacity --max-model-len 9999999", ["max_model_len", "GiB"]),
        ("capacity --model llama-3-70b", ["llama-3-70b", "weights", "tp"]),
        ("prefill --model llama-3-70b", ["llama-3-70b", "weights", "tp"]),
        ("prefill --batch 0", ["batch", "'0'"]),
        ("prefill --past -1", ["past", "'-1'"]),
        ("prefill --timing yesterday", ["timing", "today"]),
        ("copy --direction up", ["direction", "h2d, d2h"]),
        ("copy --bytes-per-copy 0", ["bytes_per_copy"]),
        ("copy --bytes-per-copy inf", ["bytes_per_copy", "inf"]),
        ("copy --copies 2.5", ["copies", "2.5"]),
        ("copy --link usb", ["usb", "pcie"]),
        ("copy --copy-gb-per-s nan", ["copy_gb_per_s", "nan"]),
        ("compare --survival 1.5", ["survival", "from 0 to 1"]),
        ("compare --survival inf", ["survival", "inf"]),
        ("compare --tokens 9999999", ["tokens", "GiB"]),
        ("compare --model llama-3-70b", ["llama-3-70b", "weights"]),
        ("compare --policy none", ["policy", "vllm-v1"]),
        ("figure19 --tokens 3", ["--tokens"]),
    ],
)
def test_refusals_are_one_sentence(run, line, words):
    sentence = refused(run(line))
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize("hostile", ["\udc80", "a\nb", "x" * 10_000, "'; --", "\x1b[31m"])
def test_hostile_text_stays_one_short_line(run, hostile):
    for line in (["size", "--tokens", hostile], [hostile], ["size", f"--{hostile}"], ["copy", "--copies", hostile]):
        assert len(refused(run(line))) < 400
    refused(run(["compare", "--model", hostile]))


# as a process


def started(*arguments, **options):
    command = [sys.executable, "-m", "kvmodel", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def test_module_exit_codes():
    assert json.loads(started("size", "--json").stdout)["kv_bytes"] == 536_870_912
    bad = started("size", "--tokens", "x")
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)


def test_text_survives_a_terminal_without_unicode():
    done = started("copy", env=os.environ | {"PYTHONIOENCODING": "ascii"}, encoding="utf-8")
    assert done.returncode == 0
    assert "µs" in done.stdout


def test_a_reader_that_stops_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "kvmodel", "compare"], stdout=write, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_answer_needs_no_plotly_pandas_or_streamlit():
    code = (
        "import sys; from kvmodel.cli.command_line import main; main(['compare']); "
        "print([name for name in ('plotly', 'pandas', 'streamlit') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_failed_output_leaves_the_old_file(tmp_path, monkeypatch, capsys):
    kept = tmp_path / "k.csv"
    kept.write_text("tokens\n5\n")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert command_line.main(["size", "--rows", str(kept), "-o", str(kept)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert kept.read_text() == "tokens\n5\n"
    assert [path.name for path in tmp_path.iterdir()] == ["k.csv"]


def test_a_prefill_of_more_than_the_pool_is_refused(capsys):
    assert command_line.main(["prefill", "--tokens", "300000", "--past", "300000"]) == 2
    assert "tokens: 600,000 tokens of llama-3-8b need" in capsys.readouterr().err


def test_a_large_batch_samples_each_sequence_once(capsys):
    """100,000 one-token sequences in chunks of 2,048: the head is paid once a sequence, not once a sequence a chunk."""
    assert command_line.main(["prefill", "--tokens", "1", "--batch", "100000", "--timing", "kernels", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["prefill_s"] < 1.6 * answer["floor_s"]
