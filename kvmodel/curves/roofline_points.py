"""Where a Case stands on the roofline: its prefill and its decode, and a step's time against its tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Floats, Numbers
from kvmodel.evidence import measured, step_rows
from kvmodel.evidence.measured import Step
from kvmodel.inputs.case import Case
from kvmodel.recovery import break_even, costs, resolve
from kvmodel.recovery.comparison import Comparison
from kvmodel.timing import roofline, step_time

INTENSITIES = np.geomspace(0.5, 8192, 121)
STEP_TOKENS = np.unique(np.rint(np.geomspace(1, 8192, 121)))


@dataclass(frozen=True)
class Point:
    """One kind of work: FLOP per byte it moves, and the rate at which the model says it runs."""

    name: str
    intensity_flop_per_byte: float
    attained_flop_per_s: float
    ceiling_flop_per_s: float
    seconds: float


@dataclass(frozen=True)
class MeasuredPoint:
    """A prefill that somebody measured, on the axes of the roofline: FLOP per byte, and the rate of one GPU."""

    row: Step
    intensity_flop_per_byte: float
    attained_flop_per_s: float


@dataclass(frozen=True)
class Roofline:
    """Ceiling of one GPU (datasheet peak and memory rate), its ridge, the points of the Case and measured ones."""

    intensity_flop_per_byte: Floats
    ceiling_flop_per_s: Floats
    peak_flop_per_s: float
    hbm_bytes_per_s: float
    ridge_flop_per_byte: float
    points: tuple[Point, ...]
    measured_points: tuple[MeasuredPoint, ...]


@dataclass(frozen=True)
class StepCurve:
    """Seconds of a step of new tokens, its two limits, and the knee where they meet. Kernels, before attention."""

    tokens: Floats
    step_s: Floats
    compute_s: Floats
    weight_read_s: Floats
    floor_s: Floats
    knee_tokens: float | None
    chosen_tokens: float
    chosen_s: float


def roofline_of(result: Comparison) -> Roofline:
    """The chosen prefill and the running batch's decode step on the GPU's roofline, one GPU's share of each."""
    gpu = result.inputs.gpu
    peak, rate = float(gpu.peak_flop_per_s), float(gpu.hbm_bytes_per_s)
    points = [_prefill_point(result)]
    if result.case.decode_batch and costs.batch_fits(result.inputs).all():
        points.append(_decode_point(result))
    return Roofline(
        intensity_flop_per_byte=INTENSITIES,
        ceiling_flop_per_s=roofline.attainable_flop_per_s(INTENSITIES, peak_flop_per_s=peak, hbm_bytes_per_s=rate),
        peak_flop_per_s=peak,
        hbm_bytes_per_s=rate,
        ridge_flop_per_byte=float(roofline.ridge_flop_per_byte(peak, rate)),
        points=tuple(points),
        measured_points=measured_prefills(result.case),
    )


def measured_prefills(case: Case) -> tuple[MeasuredPoint, ...]:
    """Prefills measured on the Case's GPU with a model of the same shape, by engines of the Case's time."""
    shape = resolve.model_shape(catalog.model(case.model))
    kind = "prefill_2023" if case.timing == "2023" else "prefill"
    rows = [row for row in measured.steps() if row.gpu == case.gpu and step_rows.kind_of(row) == kind]
    same = {model_id: resolve.model_shape(catalog.model(model_id)) == shape for model_id in {row.model for row in rows}}
    return tuple(_measured_point(row, shape) for row in rows if same[row.model])


def _measured_point(row: Step, shape: step_time.ModelShape) -> MeasuredPoint:
    """Weights are read once for every chunk; batched sequences share them, and attend to themselves alone."""
    tokens = row.tokens * row.batch
    chunk = min(step_rows.CHUNK_TOKENS.get(row.kind, tokens), tokens)
    flop = step_time.linear_flop(tokens, shape, sampled=row.batch)
    flop = flop + row.batch * step_time.attention_flop(row.tokens, row.context, shape)
    weights = np.ceil(tokens / chunk) * step_time.weight_bytes_read(chunk, shape)
    size_bytes = float(weights + step_time.activation_bytes_moved(tokens, shape))
    intensity = float(roofline.intensity_flop_per_byte(flop, size_bytes))
    return MeasuredPoint(row, intensity, float(flop) / row.seconds / row.tp)


def _prefill_point(result: Comparison) -> Point:
    """One step over the whole context: every weight read once, activations and KV written."""
    inputs, shape, tokens = result.inputs, result.inputs.shape, result.case.tokens
    flop = step_time.linear_flop(tokens, shape) + step_time.attention_flop(tokens, 0, shape)
    size_bytes = step_time.weight_bytes_read(tokens, shape) + step_time.activation_bytes_moved(tokens, shape)
    kernels_s = step_time.prefill_s(tokens, 0, shape, inputs.gpu, tp=inputs.tp, chunk_tokens=tokens)
    return _point("prefill", result, float(flop), float(size_bytes), float(kernels_s))


def _decode_point(result: Comparison) -> Point:
    """One step of the running batch: every weight and every sequence's KV read for one token each."""
    inputs, shape, case = result.inputs, result.inputs.shape, result.case
    batch = case.decode_batch
    flop = step_time.linear_flop(batch, shape, sampled=batch)
    flop = flop + batch * step_time.attention_flop(1, case.decode_context, shape)
    kv_bytes = costs.batch_kv_bytes(inputs)
    size_bytes = step_time.weight_bytes_read(batch, shape) + kv_bytes * inputs.tp
    kernels_s = step_time.decode_s(batch, kv_bytes, shape, inputs.gpu, tp=inputs.tp)
    return _point("decode", result, float(flop), float(size_bytes), float(kernels_s))


def _point(name: str, result: Comparison, flop: float, moved_bytes: float, seconds: float) -> Point:
    gpu, tp = result.inputs.gpu, result.case.tp
    intensity = float(roofline.intensity_flop_per_byte(flop, moved_bytes))
    ceiling = roofline.attainable_flop_per_s(
        intensity, peak_flop_per_s=gpu.peak_flop_per_s, hbm_bytes_per_s=gpu.hbm_bytes_per_s
    )
    return Point(name, intensity, flop / seconds / tp, float(ceiling), seconds)


def step_curve(result: Comparison) -> StepCurve:
    """A step's time is flat while weights are read and linear once compute rules; the knee lies between."""
    shape, gpu, tp = result.inputs.shape, result.inputs.gpu, result.inputs.tp

    def excess_s(tokens: Numbers) -> Floats:
        computing_s = step_time.compute_s(tokens, shape, gpu, tp=tp, sampled=0)
        return np.subtract(computing_s, step_time.weight_read_s(tokens, shape, gpu, tp=tp))

    turns = excess_s(STEP_TOKENS[0]) < 0 < excess_s(STEP_TOKENS[-1])
    case_tokens = float(min(result.case.tokens, result.case.max_num_batched_tokens))
    return StepCurve(
        tokens=STEP_TOKENS,
        step_s=np.asarray(step_time.step_s(STEP_TOKENS, shape, gpu, tp=tp)),
        compute_s=np.asarray(step_time.compute_s(STEP_TOKENS, shape, gpu, tp=tp)),
        weight_read_s=np.broadcast_to(step_time.weight_read_s(STEP_TOKENS, shape, gpu, tp=tp), STEP_TOKENS.shape),
        floor_s=np.asarray(step_time.floor_s(STEP_TOKENS, 0, shape, gpu, tp=tp)),
        knee_tokens=break_even.bisect(excess_s, STEP_TOKENS[0], STEP_TOKENS[-1]) if turns else None,
        chosen_tokens=case_tokens,
        chosen_s=float(step_time.step_s(case_tokens, shape, gpu, tp=tp)),
    )
