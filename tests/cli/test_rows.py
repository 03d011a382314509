"""`--rows`: a table of cases comes back with results that equal single commands; bad tables write nothing."""

import csv
import io
import json

import pytest

from kvmodel.cli import command_line, rows

FILES = {
    "size": """\
model,kv-dtype,tokens,tp,block_tokens
llama-3-8b,bf16,4096,1,16
llama-3-8b,fp8,17,2,16
gemma-3-27b,bf16,100000,1,16
deepseek-v3,bf16,1,8,64
opt-13b,fp16,256,,
""",
    "prefill": """\
tokens,model,gpu,tp,batch,past,timing,max-num-batched-tokens
4096,llama-3-8b,a100-sxm4-80gb,1,1,0,today,2048
100,llama-3-8b,a100-sxm4-80gb,1,8,1000,today,8192
4096,llama-3-70b,h100-sxm5-80gb,4,1,0,kernels,2048
16,mixtral-8x7b,h100-sxm5-80gb,2,2,0,2023,512
""",
    "copy": """\
link,gpu,direction,bytes-per-copy,copies,rate,copy-gb-per-s,per-copy-us
pcie4-x16,,h2d,2097152,256,measured,,
,h100-sxm5-80gb,d2h,16384,1000,link,,
pcie4-x16,,d2h,10240.5,20480,measured,12.5,
pcie4-x16,,d2h,10240,20480,measured,13,3.5
auto,a100-sxm4-80gb,d2h,10240,20480,measured,,0
""",
    "compare": """\
model,gpu,tokens,preemptions,policy,objective,copy_gb_per_s,survival,decode_batch,block_tokens,layout
llama-3-8b,a100-sxm4-80gb,4096,1,ideal,victim-delay,,0,32,16,contiguous
llama-3-8b,a100-sxm4-80gb,20000,3,ideal,gpu-time,1.5,0.5,8,16,contiguous
llama-3-8b,a100-sxm4-80gb,512,2,ideal,victim-delay,2.5,1,0,32,contiguous
llama-2-7b,a100-sxm4-80gb,4096,2,vllm-v0,victim-delay,,0,4,16,per-layer-kv
llama-2-7b,a100-sxm4-80gb,4096,5,vllm-v0,victim-delay,,0,9000,8,per-layer-kv
llama-3.1-8b,h100-sxm5-80gb,50000,1,vllm-v1,victim-delay,,0.1,16,16,contiguous
llama-3.1-8b,h100-sxm5-80gb,50000,1,trtllm-no-evict,victim-delay,,0.1,16,16,contiguous
""",
}


@pytest.fixture
def table(tmp_path, capsys):
    """Exit code, output and errors of `COMMAND --rows` on a text."""

    def table(command, text, *flags):
        path = tmp_path / "rows.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        code = command_line.main([command, "--rows", str(path), *flags])
        return (code, *capsys.readouterr())

    return table


def dicts(text):
    return list(csv.DictReader(io.StringIO(text)))


def single(command, row, capsys):
    """The same case as a command of its own."""
    flags = [part for name, cell in row.items() if cell for part in (command_line.flag(name), cell)]
    assert command_line.main([command, *flags, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    if command != "compare":
        return answer
    prices = {f"{name}_{key}": value for name, price in answer["strategies"].items() for key, value in price.items()}
    even = {f"break_even_{key}": value for key, value in answer["break_even"].items()}
    return answer | prices | answer["verdict"] | even


@pytest.mark.parametrize("command", FILES)
def test_a_table_equals_its_single_commands(command, table, capsys):
    code, out, err = table(command, FILES[command])
    assert (code, err) == (0, "")
    given, answered = dicts(FILES[command]), dicts(out)
    assert len(answered) == len(given)
    for row, result in zip(given, answered, strict=True):
        one = single(command, row, capsys)
        added = {name: cell for name, cell in result.items() if name not in row}
        assert added.pop("error") == ""
        for name, cell in added.items():
            if isinstance(one[name], str):
                assert cell == one[name], name
            else:
                assert (float(cell) if cell else None) == (
                    None if one[name] is None else pytest.approx(one[name], rel=1e-9, abs=1e-15)
                ), name


def test_compare_adds_the_promised_columns(table):
    _, out, _ = table("compare", "tokens\n4096\n")
    header = out.splitlines()[0].split(",")
    assert header[0] == "tokens"
    assert header[-1] == "error"
    for strategy in ("wait", "recompute", "swap", "offload", "both"):
        assert {f"{strategy}_{key}" for key in ("victim_delay_s", "low_s", "high_s")} <= set(header)
    assert {"winner", "factor", "wait_for_blocks_s", "break_even_copy_bytes_per_s"} <= set(header)


def test_cells_come_back_as_they_were(table):
    given = [["--tokens", "kv-dtype"], [" 004096 ", "bf16"], ["+17", "fp8"]]
    _, out, _ = table("size", '--tokens,"kv-dtype"\n 004096 ,"bf16"\n+17,fp8\n\n')
    assert [line[:2] for line in csv.reader(io.StringIO(out))] == given


def test_byte_order_mark_and_windows_line_ends(table):
    code, out, _ = table("size", b"\xef\xbb\xbftokens\r\n1\r\n")
    assert code == 0
    assert out.startswith("tokens,kv_bytes")
    assert out.count("\r\n") == 2


def test_a_header_alone_gets_its_columns(table):
    code, out, _ = table("copy", "copies\n")
    assert code == 0
    assert out.startswith("copies,copy_s,effective_bytes_per_s")
    assert out.count("\n") == 1


def test_flags_hold_where_a_row_says_nothing(table):
    _, out, _ = table("size", "tokens,tp\n1,\n1,2\n", "--tp", "4", "--model", "llama-2-7b")
    assert [row["kv_bytes_per_gpu"] for row in dicts(out)] == [str(524_288 // 4), str(524_288 // 2)]


@pytest.mark.parametrize("command", ["prefill", "compare"])
def test_what_does_not_fit_is_said_in_its_row(table, command):
    code, out, err = table(command, "model,tokens\nllama-3-8b,64\nllama-3-70b,64\nllama-3-8b,32\n")
    assert (code, err) == (0, "")
    fits, too_big, fits_too = dicts(out)
    assert "llama-3-70b needs" in too_big.pop("error")
    assert set(too_big.values()) == {"llama-3-70b", "64", ""}
    assert fits["error"] == fits_too["error"] == ""


def test_one_long_request_among_others(table):
    _, out, _ = table("compare", "tokens,preemptions\n10000000,1\n4096,1\n400000,1000\n")
    longest, short, growing = dicts(out)
    assert longest["error"].startswith("tokens: 10,000,000 tokens")
    assert growing["error"].startswith("tokens: 655,744 tokens")
    assert (short["error"], short["winner"]) == ("", "both")
    assert growing["winner"] == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tokens\n1\nx\n", ["line 3", "tokens", "'x'"]),
        ("tokens\n1\n0\n", ["line 3", "tokens", "'0'"]),
        ("tokens\nnan\n", ["line 2", "nan"]),
        ("tokens,model\n1,llama-3-8b\n1,llama3.8b\n", ["line 3", "llama3.8b", "llama-3-8b"]),
        ("tokens,tp\n1,3\n", ["line 2", "tp"]),
        ("tokens,tp\n1\n", ["line 2", "1 cells", "2"]),
        ("tokens,tp\n1,1,1\n", ["line 2", "3 cells"]),
        ("tokens,tokens\n1,1\n", ["line 1", "tokens", "twice"]),
        ("kv-dtype,kv_dtype\nbf16,bf16\n", ["line 1", "twice"]),
        ("tokens,colour\n1,red\n", ["line 1", "colour", "kv_dtype"]),
        ("tokens,gpu\n1,h100-sxm5-80gb\n", ["line 1", "gpu"]),
        ("tokens,\n1,\n", ["line 1", "''"]),
        ('tokens\n"1\n2"\n', ["line 3", "tokens"]),
        ("", ["empty"]),
        ("\n\n", ["empty"]),
        (b"\xff\xfe\x00", ["UTF-8"]),
        ("tokens\n" + "1" * 200_000 + "\n", ["line 2"]),
    ],
)
def test_bad_tables_write_nothing(table, tmp_path, text, words):
    target = tmp_path / "out.csv"
    code, out, err = table("size", text, "-o", str(target))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words), err
    assert not target.exists()


def test_files_that_are_not_there(tmp_path, capsys):
    for flags in (["--rows", str(tmp_path / "none.csv")], ["--rows", str(tmp_path)]):
        assert command_line.main(["size", *flags]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_output_goes_to_a_file(table, tmp_path):
    target = tmp_path / "out.csv"
    assert table("size", "tokens\n1\n", "-o", str(target)) == (0, "", "")
    assert dicts(target.read_text(encoding="utf-8"))[0]["kv_bytes"] == "131072"
    assert table("size", "tokens\n1\n", "-o", str(tmp_path / "no" / "out.csv"))[0] == 2


def test_json_is_not_for_tables(table):
    code, out, err = table("size", "tokens\n1\n", "--json")
    assert (code, out) == (2, "")
    assert "CSV" in err


def test_ten_thousand_rows_take_about_a_second(table):
    import time

    lines = "".join(f"{1 + 7 * n % 60_000},{n % 65},{(n % 1000) / 1000},{1 + n / 200}\n" for n in range(10_000))
    start = time.perf_counter()
    code, out, _ = table("compare", "tokens,decode_batch,survival,copy_gb_per_s\n" + lines)
    assert code == 0
    assert out.count("\n") == 10_001
    assert time.perf_counter() - start < 10  # measured 1 s: one by one they take over a minute


def test_a_table_is_limited_by_rows_while_it_is_read(table, monkeypatch):
    monkeypatch.setattr(rows, "MOST_ROWS", 3)
    assert table("size", "tokens\n" + "1\n" * 3)[0] == 0
    code, out, err = table("size", "tokens\n" + "1\n" * 4)
    assert (code, out) == (2, "")
    assert "cannot be read: it has more than 3 rows below its heading" in err
    code, _, err = table("size", "tokens\n" + "," * 70_000)
    assert (code, "line 2 is longer than 65,536 characters" in err) == (2, True)


def test_parts_of_a_table_equal_the_whole(table, monkeypatch):
    whole = table("compare", FILES["compare"])
    monkeypatch.setattr(rows, "AT_ONCE", 2)
    assert table("compare", FILES["compare"]) == whole
