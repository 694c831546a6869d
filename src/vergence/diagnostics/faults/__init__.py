"""Faults: one small detector for each, in a table; arguments are filled by name, each gives a finding or None."""

from vergence.diagnostics.faults.columns import column_scales
from vergence.diagnostics.faults.directions import constant_offset, dominant_direction
from vergence.diagnostics.faults.learning import (
    cluster_collapse,
    complete_collapse,
    dimensional_collapse,
    false_negatives,
    frozen_projector,
    impossible_loss,
    prototype_collapse,
    temperature_too_high,
    temperature_too_low,
    unnormalized_input,
    wrong_layer,
)
from vergence.diagnostics.faults.lengths import heavy_tailed_lengths
from vergence.diagnostics.faults.pairs import (
    dead_view,
    identical_views,
    label_noise,
    labels_at_chance,
    misaligned_labels,
    misaligned_views,
    no_classes,
    shuffled_pairs,
)
from vergence.diagnostics.faults.rows import (
    batch_statistics_leak,
    dead_columns,
    duplicates,
    empty_rows,
    extreme_scale,
    mixture,
    no_structure,
    outliers,
    quantization,
    too_few_rows,
)
from vergence.diagnostics.faults.texts import anisotropy, by_frequency, by_length
from vergence.tables import Table

FAULTS = Table(
    "fault",
    {
        "too few rows": too_few_rows,
        "empty rows": empty_rows,
        "outliers": outliers,
        "batch statistics leak": batch_statistics_leak,
        "mixture": mixture,
        "duplicates": duplicates,
        "quantization": quantization,
        "dead columns": dead_columns,
        "heavy-tailed lengths": heavy_tailed_lengths,
        "dominant direction": dominant_direction,
        "column scales": column_scales,
        "anisotropy": anisotropy,
        "length bias": by_length,
        "frequency bias": by_frequency,
        "constant offset": constant_offset,
        "extreme scale": extreme_scale,
        "no structure": no_structure,
        "dead view": dead_view,
        "identical views": identical_views,
        "misaligned views": misaligned_views,
        "shuffled pairs": shuffled_pairs,
        "misaligned labels": misaligned_labels,
        "labels at chance": labels_at_chance,
        "label noise": label_noise,
        "no classes": no_classes,
        "complete collapse": complete_collapse,
        "wrong layer": wrong_layer,
        "unnormalized input": unnormalized_input,
        "frozen projector": frozen_projector,
        "impossible loss": impossible_loss,
        "temperature too low": temperature_too_low,
        "temperature too high": temperature_too_high,
        "prototype collapse": prototype_collapse,
        "cluster collapse": cluster_collapse,
        "dimensional collapse": dimensional_collapse,
        "false negatives": false_negatives,
    },
)

__all__ = ["FAULTS"]
